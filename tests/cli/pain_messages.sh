# What users took for an error, or were never told. P06, P32, P55, P56, P57, P59, P72, P73, P78, P88.
need python3
unisono simulate -q --cells 2000 --dims 6 --levels 3 -o s.npy --meta-out m.tsv
run() { unisono integrate s.npy --meta m.tsv --batch batch "$@"; }

echo "# P57: a rise of the objective between rounds is flagged, and only that"
run -q -o rise.npy --trace rise.json --tol -1 --max-rounds 10 --theta 20
run -q -o fall.npy --trace fall.json --tol -1 --max-rounds 3 --sigma 1
run -q -o many.npy --trace many.json --tol -1 --max-rounds 3 --sweeps 9 --terms
python3 - <<'END_OF_PYTHON'
import json
for name in ("rise", "fall"):
    t = json.load(open(name + ".json"))
    o = [r["objective"] for r in t["rounds"]]
    assert t["objective_increased"] == any(b > a for a, b in zip(o, o[1:])), name
    print(name, t["objective_increased"])
t = json.load(open("many.json"))
print("a row for every sweep and the start:", len(t["objective"]) == 1 + sum(r["sweeps"] for r in t["rounds"]))
END_OF_PYTHON

echo "# P55, P56, P59: why it ended is said in the closing line, which is no warning; exit 0"
run -o a.npy --tol -1 --max-rounds 2 --sweeps 1 2>&1 | sed -E 's/; (cpu|[0-9.]+ s).*//'
run -o b.npy 2>&1 | sed -E 's/[0-9]+ rounds/N rounds/; s/; cpu.*//'

echo "# P72, P73, P78: what was computed, and how, goes with the result"
run -q -o c.npy --trace c.json --precision single --compat r-2.0.4 --seed 5
run -q -o d.npy --trace d.json
python3 - <<'END_OF_PYTHON'
import json
for name in "cd":
    t = json.load(open(name + ".json"))
    p = t["parameters"]
    print(t["version"] != "", t["seed"], p["precision"], p["compat"], len(p) >= 20)
END_OF_PYTHON
try run -o no.npy --compat r-1.2.0
try run -o no.npy --precision double

echo "# P06: a number among the batch variables, by its name"
awk -F'\t' -v OFS='\t' 'NR == 1 { print $0, "S.Score" } NR > 1 { print $0, sin(NR) }' m.tsv >score.tsv
try unisono integrate s.npy --meta score.tsv --batch batch --batch S.Score -o no.npy

echo "# P32: numbers and texts that look like them"
awk -F'\t' -v OFS='\t' 'NR == 1 { print "cell", "donor" } NR > 1 { print $1, NR % 3 + 1 }' m.tsv >number.tsv
awk -F'\t' -v OFS='\t' 'NR == 1 { print "cell", "donor" } NR > 1 { print $1, "d" NR % 3 + 1 }' m.tsv >text.tsv
unisono integrate s.npy --meta number.tsv --batch donor -q -o number.npy
unisono integrate s.npy --meta text.tsv --batch donor -q -o text.npy
cmp number.npy text.npy && echo the same

echo "# P88: where there is no card, or one that cannot be used, the CPU does it, and says so"
unisono simulate -q --cells 100000 --dims 2 -o large.h5ad
echo "no plugin" >plugin.so
for plugin in "" ./plugin.so; do
    UNISONO_CUDA_PLUGIN=$plugin unisono integrate large.h5ad --batch batch --clusters 5 --max-rounds 1 -f -o e.npy 2>&1 |
        sed -E 's/\(.*//; s/named? cannot.*/cannot be opened/; s/: \.\/plugin.*//'
done
for n in 9999 10000; do
    for plugin in "" ./plugin.so; do
        UNISONO_CUDA_PLUGIN=$plugin unisono score large.h5ad --batch batch --sample $n 2>&1 >/dev/null | sed -E "s/^/$n cells looked at: /; s/: \.\/plugin.*//"
    done
done
ls no.* 2>/dev/null
exit 0
