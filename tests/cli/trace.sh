# --trace is JSON with everything that a run consisted of; names that need escapes stay whole. P34, P57, P73, P89.
need python3
waves 60 3 >z.tsv
awk 'NR == 1 { print "cell\tthe \"batch\""; next } { print "c" NR - 1 "\t" (NR % 2 ? "a\\b" : "é, #2") }' <(seq 61) >meta.tsv
unisono integrate z.tsv --meta meta.tsv --batch 'the "batch"' --clusters 3 --theta 1.5 --max-rounds 3 --tol -1 --seed 7 -q -o a.tsv --trace t.json
python3 - <<'END'
import json
t = json.load(open("t.json"))
print(sorted(t))
print(t["version"], t["seed"], t["threads"] > 0, t["backend"].startswith("cpu"), t["reason"])
print(t["sizes"])
p = t["parameters"]
print(p["theta"], p["sigma"], p["lambda"], p["update"], p["clusters"], p["max-rounds"], p["tol"], p["terms"], p["seed"])
print(t["variables"])
print([r["round"] for r in t["rounds"]], [r["sweeps"] for r in t["rounds"]], all(r["objective"] is not None for r in t["rounds"]))
o = t["objective"]
print(o[0]["round"], o[0]["sweep"], [x["round"] for x in o[1:]])
for x in o:
    assert abs(x["total"] - x["distance"] - x["entropy"] - x["diversity"]) < 1e-4 * abs(x["total"]) + 1e-4, x
assert t["rounds"][-1]["objective"] == o[-1]["total"]
s = t["seconds"]
assert all(s[k] >= 0 for k in s) and s["total"] >= s["run"], s
assert t["memory_peak_bytes"] > 1e5 and t["memory_predicted_bytes"] > 1000
assert t["objective_increased"] in (True, False)
print(t["warnings"])
END
