# The same seed, the same bytes, on every machine (the sums were made on x86-64).
unisono simulate -q --cells 2000 --dims 7 --levels 3 --types 5 --rare 2 -o a.npy --meta-out a.tsv
sha256sum a.npy a.tsv
unisono simulate -q --cells 2000 --dims 7 --levels 3 --types 5 --rare 2 -o b.npy --meta-out b.tsv
cmp a.npy b.npy && cmp a.tsv b.tsv
unisono simulate -q --cells 2000 --dims 7 --levels 3 --types 5 --rare 2 --seed 2 -o b.npy --meta-out b.tsv -f
cmp -s a.npy b.npy || echo another seed, another atlas
head -n 3 a.tsv
cut -f 2 a.tsv | sort | uniq -c
unisono simulate --cells 1000 --levels 2 --uneven 0 -o even.h5ad
unisono simulate -q --cells 2 --dims 1 --levels 2 --types 1 --shift 0 --type-shift 0 --uneven 0 -o tiny.tsv --meta-out tiny.meta.tsv
wc -l <tiny.tsv
