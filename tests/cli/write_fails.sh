# A disk that fills up (here: a limit on the size of files) and a closed stdout are failures that leave nothing and change nothing.
unisono simulate -q --cells 20000 --dims 30 -o s.h5ad
cp s.h5ad old.h5ad
unisono simulate -q --cells 50 -o old.bin.h5ad
cp old.bin.h5ad out.h5ad
limited() { (ulimit -f 1000 && "$@") 2>&1; echo "exit $?"; }
for out in out.npy out.tsv out.csv.gz; do
    limited unisono integrate s.h5ad --batch batch -q --max-rounds 0 -o $out
done
limited unisono integrate s.h5ad --batch batch -q --max-rounds 0 -f -o out.h5ad
limited unisono integrate s.h5ad --batch batch -q --max-rounds 0 --in-place
unisono simulate -q --cells 20000 --dims 5 -o small.h5ad
limited unisono integrate small.h5ad --batch batch -q --max-rounds 1 -o ok.npy --clusters 100 --model m.npz
limited unisono integrate small.h5ad --batch batch -q --max-rounds 1 -o ok2.npy --clusters 100 --model m/
limited unisono simulate -q --cells 30000 -o new.h5ad
cmp s.h5ad old.h5ad && cmp out.h5ad old.bin.h5ad
ls -A
[ -e /dev/full ] || skip "there is no /dev/full"
unisono --help >/dev/full
echo "exit $?"
unisono integrate s.h5ad --batch batch --dry-run >/dev/full
echo "exit $?"
