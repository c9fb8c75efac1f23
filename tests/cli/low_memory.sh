# --low-memory gives the same bytes and predicts less. P12.
unisono simulate -q --cells 5000 --dims 20 --levels 3 -o s.h5ad
unisono integrate s.h5ad --batch batch -q -o usual.npy
unisono integrate s.h5ad --batch batch -q --low-memory -o low.npy
cmp usual.npy low.npy && echo same
usual=$(unisono integrate s.h5ad --batch batch --dry-run | sed -n 's/memory: \([0-9]*\) bytes/\1/p')
low=$(unisono integrate s.h5ad --batch batch --dry-run --low-memory | sed -n 's/memory: \([0-9]*\) bytes/\1/p')
[ "$low" -lt "$usual" ] && echo less
try unisono integrate s.h5ad --batch batch --low-memory --model m.npz -o out.npy
