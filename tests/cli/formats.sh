# Every format in, every format out, the same numbers. P75, P99.
unisono simulate -q --cells 300 --dims 5 --levels 3 --types 4 -o s.h5ad
unisono simulate -q --cells 300 --dims 5 --levels 3 --types 4 -o s.npy --meta-out m.tsv
unisono simulate -q --cells 300 --dims 5 --levels 3 --types 4 -o s.tsv.gz --meta-out m2.tsv
unisono simulate -q --cells 300 --dims 5 --levels 3 --types 4 -o s.csv --meta-out m3.tsv
cmp m.tsv m2.tsv && cmp m.tsv m3.tsv
for out in npy tsv csv tsv.gz csv.gz; do
    unisono integrate s.h5ad --batch batch -q -o h5ad.$out
    unisono integrate s.npy --meta m.tsv --batch batch -q -o npy.$out
    unisono integrate s.csv --meta m.tsv --batch batch -q -o csv.$out
    unisono integrate s.tsv.gz --meta m.tsv --batch batch -q -o tsv.gz.$out
done
unisono integrate s.h5ad --batch batch -q -o h5ad.h5ad
gunzip -k *.npy.gz *.tsv.gz *.csv.gz 2>/dev/null
cmp h5ad.npy npy.npy && cmp h5ad.npy csv.npy && cmp h5ad.npy tsv.gz.npy
cmp csv.tsv tsv.gz.tsv
# another instruction set may differ in the last digits
rounded() { awk -F'[\t,]' '{ for (j = 1; j <= NF; j++) printf "%s%s", ($j ~ /^-?[0-9.]+$/ ? sprintf("%.3f", $j) : $j), (j < NF ? " " : "\n") }'; }
head -n 2 csv.tsv | rounded
head -n 2 npy.csv | rounded
zcat tsv.gz.csv.gz | cmp - csv.csv
try unisono integrate s.npy --meta m.tsv --batch batch -q -o npy.h5ad
ls *.h5ad
