# --model holds R, Y, O, E, lambda, W, theta and sigma; the correction can be made again from them. P62, P100.
need python3
unisono simulate -q --cells 400 --dims 4 --levels 3 --types 3 -o s.npy --meta-out m.tsv
unisono integrate s.npy --meta m.tsv --batch batch --clusters 5 --theta 1 --tau 3 -q -o c.npy --model m.npz
mkdir folder
unisono integrate s.npy --meta m.tsv --batch batch --clusters 5 --theta 1 --tau 3 -q -o c2.npy --model folder
unisono integrate s.npy --meta m.tsv --batch batch --clusters 5 --theta 1 --tau 3 -q -o c3.npy --model made/
ls folder
diff -r folder made && cmp c.npy c2.npy
cat folder/levels.tsv
python3 "$HERE/npy.py" m.npz
PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import npy
m = npy.load("m.npz")
for name in m:
    assert m[name] == npy.load("folder/%s.npy" % name), name
z, c = npy.load("s.npy")[1], npy.load("c.npy")[1]
(n, k), r = m["R"]
b, _, d = m["W"][0]
w, o, e = m["W"][1], m["O"][1], m["E"][1]
level = [int(l.split("\t")[1][-1]) - 1 for l in open("m.tsv").read().splitlines()[1:]]
assert max(abs(sum(r[i * k:i * k + k]) - 1) for i in range(n)) < 1e-5
worst = 0
for i in range(n):
    for j in range(d):
        moved = sum(r[i * k + q] * w[(level[i] * k + q) * d + j] for q in range(k))
        worst = max(worst, abs(z[i * d + j] - moved - c[i * d + j]))
print("corrected = Z - R W:", worst < 1e-4)
for l in range(b):
    for q in range(k):
        assert abs(o[l * k + q] - sum(r[i * k + q] for i in range(n) if level[i] == l)) < 1e-2
        share = level.count(l) / n
        assert abs(e[l * k + q] - share * sum(o[x * k + q] for x in range(b))) < 1e-6 * n
        assert abs(m["lambda"][1][l * k + q] - 0.2 * e[l * k + q]) < 1e-6 * n or m["lambda"][1][l * k + q] == 0
print("O, E and lambda agree with R")
END
