# --centroids sets the start and the number of clusters; its shape is checked. P114.
need python3
unisono simulate -q --cells 400 --dims 4 --levels 3 --types 3 -o s.npy --meta-out m.tsv
run() { unisono integrate s.npy --meta m.tsv --batch batch -q "$@"; }
run --clusters 5 -o a.npy --model a/
run --centroids a/Y_start.npy -o b.npy --model b/
PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import npy
a, b, start = npy.load("a.npy"), npy.load("b.npy"), npy.load("b/Y_start.npy")
print("the same from the same start, but for rounding:", max(abs(x - y) for x, y in zip(a[1], b[1])) < 1e-3)
print("clusters:", start[0][0])
END
try run --centroids a/Y_start.npy --clusters 4 -o c.npy
try run --centroids a/R.npy -o c.npy
try run --centroids m.tsv -o c.npy
try run --centroids none.npy -o c.npy
ls *.npy
