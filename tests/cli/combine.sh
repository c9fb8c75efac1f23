# --combine: one variable of the joint levels, however the values look when pasted; the model names them in the order of its rows. P46.
unisono simulate -q --cells 1500 --dims 5 --levels 2 -o s.npy --meta-out s.tsv
awk -F'\t' -v OFS='\t' 'NR == 1 { print $1, "a", "b", "joint"; next }
    { a = NR % 2 ? "x | y" : "x"; b = NR % 3 ? "z" : "y | z"; print $1, a, b, (NR % 2) (NR % 3 > 0) }' s.tsv >m.tsv
unisono integrate s.npy --meta m.tsv --batch a --batch b --combine -o c.npy --model c/ --trace t.json 2>&1 | sed 's/;.*//'
unisono integrate s.npy --meta m.tsv --batch joint -q -o j.npy --model j/
cmp c.npy j.npy && echo "as one column that has them pasted"
cat c/levels.tsv
grep -c '"joint"' t.json
try unisono integrate s.npy --meta m.tsv --batch a --batch b --combine --theta 2,1 -o no.npy
awk -F'\t' -v OFS='\t' 'NR % 10 == 4 { $2 = "" } 1' m.tsv >holes.tsv
unisono integrate s.npy --meta holes.tsv --batch a --batch b --combine --missing level -q -o h.npy --model h/
cat h/levels.tsv
ls
