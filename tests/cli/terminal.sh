# On a terminal one line is redrawn, and is gone at the end; it fits into 80 columns. P64.
need python3
python3 -c 'import os; os.openpty()' 2>/dev/null || skip "there are no pseudo-terminals here"
unisono simulate -q --cells 20000 --dims 20 -o s.h5ad
python3 - <<'END'
import os, pty
pid, fd = pty.fork()
if pid == 0:
    os.execvp("unisono", ["unisono", "integrate", "s.h5ad", "--batch", "batch", "-o", "a.npy", "--tol", "-1", "--max-rounds", "40"])
text = b""
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    text += piece
print("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
lines = text.decode().replace("\r\n", "\n").split("\n")
drawn = [l.replace("\033[K", "") for l in lines[0].split("\r")]
assert any("round" in l for l in drawn), text
assert max(map(len, drawn[:-1])) < 80, drawn
print("lines", len(lines) - 1)
print("after it the last line:", drawn[-1].startswith("unisono: 20000 cells"))
END
