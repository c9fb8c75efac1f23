# On a terminal one line is redrawn, and is gone at the end; it fits into 80 columns. P64.
need python3
python3 -c 'import os; os.openpty()' 2>/dev/null || skip "there are no pseudo-terminals here"
unisono simulate -q --cells 20000 --dims 20 -o s.h5ad
cat >on_terminal.py <<'END'
import os, pty


def on_terminal(*words):
    """The lines that came, and what was drawn and drawn over in the first of them."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp("unisono", ["unisono", *words])
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
    assert max(map(len, drawn[:-1]), default=0) < 80, drawn
    return lines, drawn
END
python3 - <<'END'
from on_terminal import on_terminal
lines, drawn = on_terminal("integrate", "s.h5ad", "--batch", "batch", "-o", "a.npy", "--tol", "-1", "--max-rounds", "40")
assert any("round" in l for l in drawn), drawn
print("lines", len(lines) - 1)
print("after it the last line:", drawn[-1].startswith("unisono: 20000 cells"))
END

# So does score, whose table comes after it; with -q there is the table alone.
unisono simulate -q --cells 30000 --dims 50 -o t.h5ad
python3 - <<'END'
import re
from on_terminal import on_terminal
score = ["score", "t.h5ad", "--batch", "batch", "--basis", "X_pca", "--all", "--threads", "1"]
lines, drawn = on_terminal(*score)
assert any(re.fullmatch(r"scoring X_pca  \d+ of 30000 cells  \d+ s, \d+ s left", l) for l in drawn), drawn
assert drawn[-1].startswith("basis\t") and len(lines) == 3, lines
quiet, drawn = on_terminal(*score, "-q")
assert len(drawn) == 1 and quiet[1:] == lines[1:], quiet
END
