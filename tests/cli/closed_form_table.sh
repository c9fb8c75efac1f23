# K = 1 has a closed form; reference numbers of the project's test data (user-pain.md, section 0), tables in and out. P40, P61.
waves 60 3 >z.tsv
alternating 60 >meta.tsv
unisono integrate z.tsv --meta meta.tsv --batch batch --clusters 1 -q -o auto.tsv
head -n 1 auto.tsv
first_row <auto.tsv
unisono integrate z.tsv --meta meta.tsv --batch batch --clusters 1 --lambda=1 -q -o one.csv
head -n 1 one.csv
first_row <one.csv
cut -f 1 z.tsv >a && cut -f 1 auto.tsv >b && cmp a b && cut -d , -f 1 one.csv >c && cmp a c
