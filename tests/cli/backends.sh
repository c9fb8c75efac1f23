# What the build has; a backend that is not in it is no wrong command line but a failure. P88.
export UNISONO_CUDA_PLUGIN= # the same with and without a CUDA compiler
unisono simulate -q --cells 300 --dims 5 -o s.h5ad
unisono backends
try unisono integrate s.h5ad --batch batch --backend cuda -o o.npy
