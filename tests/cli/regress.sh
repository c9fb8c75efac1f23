# --regress takes a planted linear effect of a number out of every cluster, and leaves the types where they are; what is no number is an error.
# P06.
need python3
export PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1
unisono simulate -q --cells 3000 --dims 6 --levels 2 --types 3 --seed 2 -o plain.npy --meta-out s.tsv
python3 - <<'END'
import math, npy
(n, d), z = npy.load("plain.npy")
rows = [l.split("\t") for l in open("s.tsv").read().splitlines()]
depth = [math.sin(1.7 * i) * 1.2 + 8 for i in range(n)]
out = list(z)
for i in range(n):
    for j in range(d):
        out[i * d + j] += 0.5 * (depth[i] - 8) * (1 if j % 2 else -0.7)
npy.save("z.npy", (n, d), out)
with open("m.tsv", "w") as f:
    print(*rows[0], "depth", "half", "text", "constant", sep="\t", file=f)
    for i, r in enumerate(rows[1:]):
        print(*r, repr(depth[i]), "" if i == 4 else i / 2, "deep" if i == 6 else i, 3.5, sep="\t", file=f)
END
run() { unisono integrate z.npy --meta m.tsv --batch batch "$@"; }
run -q -o without.npy
run --regress depth -o with.npy --model model.npz --trace t.json 2>&1 | sed 's/;.*//'
python3 - <<'END'
import json, npy
(n, d), z = npy.load("z.npy")
rows = [l.split("\t") for l in open("m.tsv").read().splitlines()][1:]
depth, kind = [float(r[3]) for r in rows], [r[2] for r in rows]

def slope(values):
    """Largest slope of a dimension on depth within a type."""
    worst = 0
    for t in sorted(set(kind)):
        cells = [i for i in range(n) if kind[i] == t]
        mean = sum(depth[i] for i in cells) / len(cells)
        square = sum((depth[i] - mean) ** 2 for i in cells)
        for j in range(d):
            worst = max(worst, abs(sum((depth[i] - mean) * values[i * d + j] for i in cells) / square))
    return worst

def apart(values):
    """Least distance of two types' centres."""
    centres = []
    for t in sorted(set(kind)):
        cells = [i for i in range(n) if kind[i] == t]
        centres.append([sum(values[i * d + j] for i in cells) / len(cells) for j in range(d)])
    return min(sum((a - b) ** 2 for a, b in zip(x, y)) ** 0.5 for i, x in enumerate(centres) for y in centres[:i])

plain, without, corrected = (npy.load(f)[1] for f in ("plain.npy", "without.npy", "with.npy"))
print("a planted slope of 0.5 stays without --regress:", slope(without) > 0.45)
print("of it alpha / (1 + alpha) is left with it:", abs(slope(corrected) / slope(without) - 1 / 6) < 0.05)
print("types as far apart as before the effect was planted:", abs(apart(corrected) / apart(plain) - 1) < 0.1)
m = npy.load("model.npz")
k = m["R"][0][1]
print("slopes", m["slopes"][0] == (1, k, d), json.load(open("t.json"))["regress"])
mean = sum(depth) / n
spread = (sum((x - mean) ** 2 for x in depth) / n) ** 0.5
level, r, w, s = [int(row[1][-1]) - 1 for row in rows], m["R"][1], m["W"][1], m["slopes"][1]
worst = 0
for i in range(0, n, 7):
    for j in range(d):
        moved = sum(r[i * k + q] * (w[(level[i] * k + q) * d + j] + (depth[i] - mean) / spread * s[q * d + j]) for q in range(k))
        worst = max(worst, abs(z[i * d + j] - moved - corrected[i * d + j]))
print("corrected = Z - R (W + x slopes):", worst < 1e-4)
END
echo "# what is no such column"
for column in half text constant deepth cell_type; do
    try run --regress $column -o no.npy
done
try run --regress batch -o no.npy
try run --regress depth --regress depth -o no.npy
try unisono integrate z.npy --meta m.tsv --batch depth -o no.npy
ls
