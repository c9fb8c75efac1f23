unisono backends
try unisono integrate none.h5ad --batch b --backend cuda -o o.npy
