# Nothing to integrate: the input comes back, with a warning and exit 0; -q keeps even that to itself. P21, P36.
waves 60 3 >z.tsv
sed 's/\tb$/\ta/' <(alternating 60) >meta.tsv
try unisono integrate z.tsv --meta meta.tsv --batch batch -o same.npy
try unisono integrate z.tsv --meta meta.tsv --batch batch -q -o same.tsv
first_row <z.tsv
first_row <same.tsv
unisono integrate z.tsv --meta meta.tsv --batch batch -q -o x.npy --trace t.json --model m.npz
grep -c '"warnings": \[' t.json
ls
