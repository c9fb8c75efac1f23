# A page, made of what integrate left; what is wrong is said before anything is read, and nothing is overwritten.
unisono simulate -q --cells 3000 --dims 8 -o s.h5ad
try unisono report s.h5ad -o r.html
try unisono report s.h5ad --batch batch -o r.html
unisono integrate -q s.h5ad --batch batch -o c.h5ad
unisono report -q c.h5ad -o r.html --tsne-cells 300
echo "$?"
try unisono report c.h5ad -o r.html
try unisono report c.h5ad --svg r.html
try unisono report c.h5ad --svg nowhere/r.svg
try unisono report c.h5ad
try unisono report c.npy -o r2.html
try unisono report c.h5ad s.h5ad -o r2.html
try unisono report c.h5ad --label celltype -o r2.html
try unisono report c.h5ad --basis X_pca --basis X_harmony -o r2.html
try unisono report c.h5ad --basis X_pca --basis X_pca --basis X_pca -o r2.html
try unisono report c.h5ad --points 1 -o r2.html
try unisono report c.h5ad --tsne-cells 1000000 -o r2.html
try unisono report c.h5ad --perplexity 0 -o r2.html
try unisono report c.h5ad --layout X_umap -o r2.html
echo '[1, 2]' >t.json
try unisono report c.h5ad --trace t.json -o r2.html
try unisono report c.h5ad --trace none.json -o r2.html
ls

# The same bytes, however many threads; another sample is another page. The file's own name is not what it lies under.
unisono report -q c.h5ad --label cell_type --tsne-cells 300 --points 1000 -f -o r.html --svg r.svg --threads 1
mkdir deeper
cp c.h5ad deeper
unisono report -q deeper/c.h5ad --label cell_type --tsne-cells 300 --points 1000 -o r2.html --svg r2.svg --threads 3
cmp r.html r2.html && cmp r.svg r2.svg && echo same
unisono report -q c.h5ad --label cell_type --tsne-cells 300 --points 1000 --seed 1 -f -o r2.html
cmp -s r.html r2.html || echo other
grep -c '<svg\|</svg>' r.svg
unisono report c.h5ad -o last.html --tsne-cells 0 --points 500
grep -oE 'https?://[^" ]*' last.html | sort -u

# Where librsvg was there when the program was built it draws the PNG; else that is said. (fontconfig keeps what it read.)
ASAN_OPTIONS=detect_leaks=0 unisono report -q c.h5ad --tsne-cells 300 --points 1000 --png r.png 2>png.err
case $? in
0) head -c 8 r.png | od -An -c | grep -q 'P   N   G' && echo fine ;;
2) grep -q 'this build has no librsvg' png.err && echo fine ;;
esac
