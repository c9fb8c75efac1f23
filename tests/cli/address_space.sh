# A limit on the address space counts as available memory; a run that is said to fit does.
sanitized && skip "AddressSanitizer reserves terabytes of address space"
unisono simulate -q --cells 100000 --dims 2 -o s.h5ad
try bash -c 'ulimit -v 400000; unisono integrate s.h5ad --batch batch --clusters 3000 -q -o out.npy'
try bash -c 'ulimit -v 400000; unisono integrate s.h5ad --batch batch --clusters 100 -q -o out.npy'
