# --in-place adds to the file itself; once the key is there it takes -f; everything else in it stays. P93.
need h5dump
unisono simulate -q --cells 300 --dims 5 -o s.h5ad
cp s.h5ad before.h5ad
chmod 640 s.h5ad
unisono integrate s.h5ad --batch batch -q --in-place
stat -c %a s.h5ad
try unisono integrate s.h5ad --batch batch -q --in-place
try unisono integrate s.h5ad --batch batch -q --in-place -f
unisono integrate before.h5ad --batch batch -q -o other.h5ad
h5diff -q s.h5ad other.h5ad >log && echo same as with -o
for object in /obs /var /obsm/X_pca; do
    h5diff -q before.h5ad s.h5ad $object $object >log && echo $object is as it was
done
h5dump -n s.h5ad | grep -c uns/X_pca_harmony/
rm log
h5dump -A -d /obsm/X_pca_harmony s.h5ad | grep -E 'DATATYPE|SIMPLE|encoding|"' | head -n 12
ls -A
