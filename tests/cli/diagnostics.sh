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
# more than a handful
awk 'NR == 1 { print "cell\tbatch" } NR > 1 { print $1 "\tb" (NR <= 20 ? NR % 6 : 7 + NR % 2) }' meta.tsv >small.tsv
unisono integrate z.tsv --meta small.tsv --batch batch -o w.tsv 2>&1 | grep -c 'warning: batch b.*cells'
