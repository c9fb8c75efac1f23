# Rows of the labels' table are put in the order of the cells' names: reversed gives the same result; a foreign name is an error. P35, P37.
waves 60 3 >z.tsv
alternating 60 >meta.tsv
(head -n 1 meta.tsv; tail -n +2 meta.tsv | tac) >reversed.tsv
unisono integrate z.tsv --meta meta.tsv --batch batch -q -o a.tsv
unisono integrate z.tsv --meta reversed.tsv --batch batch -q -o b.tsv
cmp a.tsv b.tsv
sed 's/^c7\t/stranger\t/' meta.tsv >foreign.tsv
try unisono integrate z.tsv --meta foreign.tsv --batch batch -q -o c.tsv
head -n 60 meta.tsv >short.tsv
try unisono integrate z.tsv --meta short.tsv --batch batch -q -o c.tsv
try unisono integrate z.tsv --meta meta.tsv --batch bacth -q -o c.tsv
ls
