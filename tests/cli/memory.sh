# A run that would not fit is refused with both numbers before anything is read in full; so is an atlas. P01.
unisono simulate -q --cells 100000 --dims 2 -o s.h5ad
try unisono integrate s.h5ad --batch batch --clusters 100000 --precision single -q -o out.npy --model m.npz
unisono integrate s.h5ad --batch batch --clusters 100000 --precision single --dry-run --model m.npz | grep fits
try unisono simulate --cells 1000000000 --dims 10000 -o big.h5ad
ls
