# --weights: a cell of weight 2 is the cell twice. With one cluster nothing is random: the weighted run moves a cell as the other one does.
# P114.
need python3
export PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1
waves 60 3 >z.tsv
alternating 60 | awk -F'\t' -v OFS='\t' 'NR == 1 { print $0, "w", "zero", "one"; next } { print $0, NR % 3 ? 1 : 2, NR == 9 ? 0 : 1, 1 }' >m.tsv
awk -F'\t' 'NR == FNR { w[$1] = $3; next } FNR == 1 || 1 { print } FNR > 1 && w[$1] == 2 { sub(/^c/, "twice"); print }' m.tsv z.tsv >z2.tsv
awk -F'\t' -v OFS='\t' '{ print } NR > 1 && $3 == 2 { sub(/^c/, "twice"); print }' m.tsv >m2.tsv
unisono integrate z.tsv --meta m.tsv --batch batch --clusters 1 --weights w -o a.tsv 2>&1 | sed 's/;.*//'
unisono integrate z2.tsv --meta m2.tsv --batch batch --clusters 1 -q -o b.tsv
unisono integrate z.tsv --meta m.tsv --batch batch --clusters 1 -q -o c.tsv
python3 - <<'END'
def read(path):
    return {r[0]: [float(x) for x in r[1:]] for r in (l.split("\t") for l in open(path).read().splitlines()[1:])}
a, b, c = read("a.tsv"), read("b.tsv"), read("c.tsv")
far = lambda x, y: max(abs(p - q) for n in a for p, q in zip(x[n], y[n]))
print("as the doubled cells:", far(a, b) < 2e-6, "and not as without weights:", far(a, c) > 1e-3)
END
unisono integrate z.tsv --meta m.tsv --batch batch -q -o none.tsv
unisono integrate z.tsv --meta m.tsv --batch batch -q --weights one -o ones.tsv
cmp none.tsv ones.tsv && echo "weights of one are none"
try unisono integrate z.tsv --meta m.tsv --batch batch --weights zero -o no.tsv
try unisono integrate z.tsv --meta m.tsv --batch batch --weights batch -o no.tsv
ls
