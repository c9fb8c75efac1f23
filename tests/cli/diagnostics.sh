# Integrate warns of what stands out, and of nothing on data as they should be; the numbers are in the trace and in uns/KEY.
need python3
unisono simulate -q --cells 3000 --dims 10 --levels 3 -o s.h5ad
unisono integrate s.h5ad --batch batch --label cell_type -o good.h5ad --trace good.json 2>&1 | grep -c warning
# 23 clusters to a type: much of the smallest batch rests on a cell or less; a penalty of 20 tears types
unisono integrate s.h5ad --batch batch --label cell_type --theta 20 --clusters 400 -o bad.h5ad --trace bad.json 2>bad.txt
grep warning bad.txt
unisono integrate s.h5ad --batch batch --label cell_type --theta 20 --clusters 400 -q -o quiet.npy
# with and without --model, and with whatever number of threads, the same
unisono integrate s.h5ad --batch batch --label cell_type --theta 20 --clusters 400 --threads 1 -q -o one.npy --trace one.json
unisono integrate s.h5ad --batch batch --label cell_type --theta 20 --clusters 400 --threads 3 -q -o three.npy --trace three.json --model m.npz
cmp one.npy three.npy
# --low-memory has no numbers of cells
unisono integrate s.h5ad --batch batch --label cell_type --low-memory -q -o low.npy --trace low.json
cmp low.npy good.npy 2>/dev/null
python3 - <<'END'
import json
load = lambda name: json.load(open(name + ".json"))["diagnostics"]
good, bad, low = load("good"), load("bad"), load("low")
print(sorted(good))
print(good["findings"], good["label"], [x["name"] for x in good["levels"]], len(good["types"]), len(good["clusters"]))
for l in good["levels"]:
    assert 0 < l["length_median"] <= l["length_999"] <= l["length_max"], l
    assert abs(sum(l["observed"]) - l["cells"]) < 0.01 * l["cells"] and len(l["lambda"]) == len(l["length"]) == 100
    assert 0.9 < l["spread_kept"] < 1.1, l
assert sum(l["cells"] for l in good["levels"]) == sum(t["cells"] for t in good["types"]) == 3000
for f in bad["findings"]:
    print(f["kind"], f["threshold"], f["more"])
assert load("one") == load("three") == bad
assert low["length_median"] is None and low["levels"][0]["length_median"] is None and low["levels"][0]["observed"] == good["levels"][0]["observed"]
END
# a table's labels; missing types; a column cannot be both
waves 60 3 >z.tsv
paste <(alternating 60) <(echo type; seq 60 | sed 's/.*/&/; 1~7s/.*//; s/[0-9][0-9]*/x/') >meta.tsv
try unisono integrate z.tsv --meta meta.tsv --batch batch --label type -q -o z.out.tsv --trace t.json
python3 -c 'import json; print([(t["name"], t["cells"]) for t in json.load(open("t.json"))["diagnostics"]["types"]])'
try unisono integrate z.tsv --meta meta.tsv --batch batch --label batch -q -o z.out.tsv
try unisono integrate z.tsv --meta meta.tsv --batch batch --label types -q -o y.tsv
try unisono integrate z.tsv --meta meta.tsv --batch batch --within type --label type -q -o y.tsv
# --within: every level's run is looked at as that of a file of its own; findings say whose they are, in the file too
export PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1
unisono simulate -q --cells 3000 --dims 10 --levels 3 -o part.npy --meta-out simulated.tsv
awk -F'\t' -v OFS='\t' '{ print $0, NR == 1 ? "tissue" : NR % 3 ? "gut" : "skin" }' simulated.tsv >part.tsv
odd="--batch batch --label cell_type --theta 20 --clusters 200"
unisono integrate part.npy --meta part.tsv --within tissue $odd -o within.npy --trace within.json 2>within.txt
grep warning within.txt | grep -v 'warning: tissue "\(gut\|skin\)": \|warning: and [0-9]* more: see within.json'
grep -q 'warning: tissue "skin": batch batch_3: ' within.txt && echo "batch_3 of skin"
unisono integrate part.npy --meta part.tsv --within tissue $odd -q --low-memory -o lowest.npy --trace lowest.json
cmp within.npy lowest.npy
python3 - <<'END'
import npy
(n, d), z = npy.load("part.npy")
lines = open("part.tsv").read().splitlines()
for t in ("gut", "skin"):
    cells = [i for i in range(n) if lines[i + 1].split("\t")[3] == t]
    npy.save("part_%s.npy" % t, (len(cells), d), [x for i in cells for x in z[i * d:i * d + d]])
    open("part_%s.tsv" % t, "w").write("\n".join([lines[0]] + [lines[i + 1] for i in cells]) + "\n")
END
for t in gut skin; do
    unisono integrate part_$t.npy --meta part_$t.tsv $odd -q --overwrite -o alone.npy --trace $t.json
done
python3 - <<'END'
import json
within, lowest = json.load(open("within.json")), json.load(open("lowest.json"))
assert "diagnostics" not in within
for run, low in zip(within["runs"], lowest["runs"]):
    alone = json.load(open(run["level"] + ".json"))["diagnostics"]
    assert run["diagnostics"] == alone and alone["findings"], run["level"]
    assert low["diagnostics"]["clusters"] == alone["clusters"] and low["diagnostics"]["length_median"] is None
    print(run["level"], [t["cells"] > 0 for t in alone["types"]].count(True), "types")
END
unisono integrate s.h5ad --batch batch --within cell_type --clusters 60 -q -o w.h5ad
unisono report -q w.h5ad --tsne-cells 0 --points 100 -o w.html
grep -o '"diagnostics/findings": "cell_type \\"type_[0-9]*\\": [a-z_]*' w.html | sed 's/type_[0-9]*/type_N/'
# more than a handful
awk 'NR == 1 { print "cell\tbatch" } NR > 1 { print $1 "\tb" (NR <= 20 ? NR % 6 : 7 + NR % 2) }' meta.tsv >small.tsv
unisono integrate z.tsv --meta small.tsv --batch batch -o w.tsv 2>&1 | grep -c 'warning: batch b.*cells'
