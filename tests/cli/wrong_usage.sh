# Exit 2, one sentence on stderr that names what is wrong and what is near it. P53, P99.
try unisono
try unisono --versoin
try unisono integrat
try unisono help simulat
try unisono integrate
try unisono integrate x.h5ad -o y.h5ad
try unisono integrate x.h5ad --batch b
try unisono integrate x.h5ad --batch b -o y.h5ad --sigm 1
try unisono integrate x.h5ad --batch b -o y.h5ad -z
try unisono integrate x.h5ad --batch b -o y.h5ad --compat 1
try unisono integrate x.h5ad --batch b -o y.h5ad --sigma
try unisono integrate x.h5ad --batch b -o y.h5ad --dry-run=1
try unisono integrate x.h5ad z.h5ad --batch b -o y.h5ad
try unisono integrate x.h5ad --batch b -o y.h5ad --in-place
try unisono integrate x.h5ad --batch b -o y.zarr
try unisono integrate x.rds --batch b -o y.h5ad
try unisono integrate x.npy --batch b -o y.npy
try unisono integrate x.npy --batch b --meta m.tsv --in-place
try unisono integrate x.npy --batch b --meta m.tsv --basis X_pca -o y.npy
try unisono integrate x.h5ad --batch b -o y.npy --trace y.npy
try unisono integrate x.h5ad --batch b -o y.npy --model m.txt
try unisono integrate x.h5ad --batch 1 --batch 2 --batch 3 --batch 4 --batch 5 --batch 6 --batch 7 --batch 8 --batch 9 -o y.npy
try unisono backends now
try unisono simulate
try unisono simulate -o x.npy
try unisono simulate -o x.h5ad --cells 1
try unisono simulate -o x.h5ad --cells 12k
try unisono simulate -o x.h5ad --shift nan
try unisono simulate -o x.h5ad --levels 30 --cells 20
try unisono compare x.h5ad
try unisono compare x.npy --batch b
ls
