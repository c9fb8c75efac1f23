# Where nothing can be written is found before any work: the input is not even looked at. P98.
try unisono integrate none.h5ad --batch batch -o missing/out.npy
try unisono integrate none.h5ad --batch batch -o out.npy --trace missing/t.json
try unisono integrate none.h5ad --batch batch -o out.npy --model missing/m.npz
mkdir folder.npy
try unisono integrate none.h5ad --batch batch -o folder.npy
try unisono integrate none.h5ad --batch batch -o out.npy --trace folder.npy
try unisono integrate none.h5ad --batch batch -o out.npy --trace /dev/null
try unisono simulate -o missing/s.h5ad
try unisono integrate none.npy --meta m.tsv --batch batch -o out.npy
try unisono integrate none.npy --meta m.tsv --batch batch -o out.h5ad
ls
