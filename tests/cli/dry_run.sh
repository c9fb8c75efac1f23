# --dry-run says on stdout what a run would take, and writes nothing. P01.
unisono simulate -q --cells 3000 --dims 5 --levels 3 -o s.h5ad
unisono integrate s.h5ad --batch batch --dry-run --threads 2 --backend cpu
unisono integrate s.h5ad --batch batch --dry-run --threads 2 -o out.h5ad | grep cells
try unisono integrate s.h5ad --batch batch --dry-run --key-added X_pca -o s.h5ad
ls
