# Files and columns that are not there, with what is near; files that are something else. P35, P53.
unisono simulate -q --cells 300 --dims 5 -o s.h5ad
try unisono integrate none.h5ad --batch batch -o o.npy
try unisono integrate s.h5ad --batch Batch -o o.npy
try unisono integrate s.h5ad --batch batch --basis X_pcs -o o.npy
echo hello >text.h5ad
echo hello >text.npy
try unisono integrate text.h5ad --batch batch -o o.npy
try unisono integrate text.npy --meta m.tsv --batch batch -o o.npy
head -c 3000 s.h5ad >cut.h5ad
unisono integrate cut.h5ad --batch batch -o o.npy 2>log
echo "exit $?, $(wc -l <log) line"
ls
