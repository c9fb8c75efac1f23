# A file, and an entry of an .h5ad, is overwritten only with -f; all of it is looked at before any work.
unisono simulate -q --cells 300 --dims 5 -o s.h5ad
try unisono simulate -q --cells 300 --dims 5 -o s.h5ad
echo old >out.npy
echo old >trace.json
echo old >model.npz
try unisono integrate s.h5ad --batch batch -o out.npy
try unisono integrate s.h5ad --batch batch -o new.npy --trace trace.json
try unisono integrate s.h5ad --batch batch -o new.npy --model model.npz
cat out.npy trace.json model.npz
ls
unisono integrate s.h5ad --batch batch -q -f -o out.npy --trace trace.json --model model.npz
grep -cx old out.npy trace.json model.npz
try unisono integrate s.h5ad --batch batch -q -o out.h5ad
try unisono integrate out.h5ad --batch batch -q -o second.h5ad
try unisono integrate out.h5ad --batch batch -q -o second.h5ad --key-added other
try unisono integrate out.h5ad --batch batch -q -f -o second.h5ad
ls
