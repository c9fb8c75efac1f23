# A folder or file that may not be written: said before any work.
[ "$(id -u)" != 0 ] || skip "root may write everywhere"
unisono simulate -q --cells 300 --dims 5 -o s.h5ad
mkdir closed
cp s.h5ad closed/s.h5ad
chmod a-w closed
try unisono integrate s.h5ad --batch batch -o closed/out.npy
try unisono integrate closed/s.h5ad --batch batch --in-place
try unisono integrate s.h5ad --batch batch -o out.npy --trace closed/t.json
chmod u+w closed
chmod a-w s.h5ad
try unisono integrate s.h5ad --batch batch --in-place
try unisono integrate s.h5ad --batch batch -q -o out.h5ad
ls closed
