# A quiet run prints nothing at all, warnings included; a run whose stderr is no terminal prints no carriage return, and its last line
# says what was done. P59, P63, P64.
unisono simulate -q --cells 3000 --dims 5 --levels 3 -o s.h5ad
unisono integrate s.h5ad --batch batch -q -o a.npy
unisono integrate s.h5ad --batch batch -o b.npy 2>log
cat log
tr -d '\r' <log | cmp - log && echo no carriage return
unisono integrate s.h5ad --batch batch -v --tol -1 --max-rounds 3 -o c.npy 2>log
cat log
tr -d '\r' <log | cmp - log && echo no carriage return
cmp a.npy b.npy
