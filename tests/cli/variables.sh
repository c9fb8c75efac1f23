# Two batch variables at once; values per variable; a variable of one level is ignored with a warning. P43, P45, P46.
unisono simulate -q --cells 2000 --dims 6 --levels 3 -o s.npy --meta-out s.tsv
awk -F'\t' -v OFS='\t' 'NR == 1 {print $0, "site", "lab"; next} {print $0, NR % 2 ? "north" : "south", "one"}' s.tsv >m.tsv
unisono integrate s.npy --meta m.tsv --batch batch --batch site -o both.npy 2>&1 | sed 's/;.*//'
try unisono integrate s.npy --meta m.tsv --batch batch --batch site --theta 2,1,1 -o o.npy
unisono integrate s.npy --meta m.tsv --batch batch --batch site --theta 2,0.5 --lambda 1,2 --tau 0,5 -q -o values.npy
unisono integrate s.npy --meta m.tsv --batch batch --batch lab -o one.npy 2>&1 | sed -n 's/^unisono: warning: //p'
unisono integrate s.npy --meta m.tsv --batch batch --batch site --dry-run | grep levels
