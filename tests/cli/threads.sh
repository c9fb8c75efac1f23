# The same bytes from any number of threads, in the result and in the report inside the file; 64 threads on a small machine are fine.
# P66, P67, P70, P80.
unisono simulate -q --cells 5000 --dims 10 --levels 5 -o s.h5ad
for n in 1 2 3 8 64; do
    unisono integrate s.h5ad --batch batch -q --threads $n --max-rounds 3 -o $n.npy
    cmp 1.npy $n.npy
done
unisono integrate s.h5ad --batch batch -q --threads 1 --max-rounds 3 --seed 1 -o other.npy
cmp -s 1.npy other.npy || echo another seed, another result
unisono integrate s.h5ad --batch batch -q --max-rounds 3 -o a.h5ad
unisono integrate s.h5ad --batch batch -q --max-rounds 3 -o b.h5ad
cmp a.h5ad b.h5ad && echo the same file twice
