# What the method refuses, and what it does with odd input (harmony2.md, section 7). Nothing is left where it refuses.
# P04, P05, P06, P24, P29, P30, P39.
waves 60 3 >z.tsv
alternating 60 >meta.tsv
run() { try unisono integrate "$@" -o out.tsv; ls out.tsv 2>/dev/null && rm out.tsv; }

echo "# NaN and Inf"
awk -F'\t' -v OFS='\t' 'NR == 6 { $3 = "NaN" } NR == 8 { $2 = "inf" } 1' z.tsv >nan.tsv
run nan.tsv --meta meta.tsv --batch batch
echo "# labels missing"
awk -F'\t' -v OFS='\t' 'NR == 5 || NR == 9 { $2 = "" } 1' meta.tsv >missing.tsv
run z.tsv --meta missing.tsv --batch batch
run z.tsv --meta missing.tsv --batch batch --missing skip
run z.tsv --meta missing.tsv --batch batch --missing level
echo "# the text NA is a label"
sed 's/\ta$/\tNA/' meta.tsv >na.tsv
run z.tsv --meta na.tsv --batch batch -q
echo "# a level for every cell"
awk 'NR == 1 { print; next } { print $1 "\tl" NR }' meta.tsv >sixty.tsv
run z.tsv --meta sixty.tsv --batch batch
run z.tsv --meta sixty.tsv --batch batch --force -q
echo "# numbers that are no labels"
awk -v OFS='\t' 'NR == 1 { print; next } { print $1, (NR - 1) / 60 }' meta.tsv >scores.tsv
run z.tsv --meta scores.tsv --batch batch
echo "# transposed"
awk 'BEGIN { for (i = 0; i <= 3; i++) for (j = 1; j <= 60; j++) printf "%s%s", (i ? i * j : "c" j), (j < 60 ? "\t" : "\n") }' >wide.tsv
run wide.tsv --meta meta.tsv --batch batch
echo "# wrong lengths"
run z.tsv --meta meta.tsv --batch batch --theta 2,1
echo "# zero rounds"
unisono integrate z.tsv --meta meta.tsv --batch batch --max-rounds 0 -q -o same.tsv
first_row <z.tsv
first_row <same.tsv
