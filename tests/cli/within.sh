# --within: every level is integrated as a file of its own would be, byte for byte; what cannot be integrated comes back as it was. P52.
need python3
export PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1
unisono simulate -q --cells 3000 --dims 5 --levels 3 -o z.npy --meta-out s.tsv
awk -F'\t' -v OFS='\t' 'NR == 1 { print $0, "tissue", "site", "depth", "holes"; next }
    { t = NR % 4 == 0 ? "gut" : NR % 4 == 1 ? "skin" : "blood"; if (NR == 8) t = "eye"; if (NR % 4 == 2 && NR < 60) t = "ear"
      b = t == "ear" ? "batch_1" : $2; print $1, b, $3, t, NR % 3 ? "n" : "s", t == "ear" ? 1 : cos(NR), NR % 9 ? t : "" }' s.tsv >m.tsv
run() { unisono integrate z.npy --meta m.tsv --batch batch --batch site "$@"; }
run --within tissue --regress depth --seed 3 -o w.npy --trace t.json 2>&1 | sed 's/; cpu.*//'
python3 - <<'END'
import npy
(n, d), z = npy.load("z.npy")
lines = open("m.tsv").read().splitlines()
for t in ("gut", "skin", "blood", "ear"):
    cells = [i for i in range(n) if lines[i + 1].split("\t")[3] == t]
    npy.save("z_%s.npy" % t, (len(cells), d), [x for i in cells for x in z[i * d:i * d + d]])
    open("m_%s.tsv" % t, "w").write("\n".join([lines[0]] + [lines[i + 1] for i in cells]) + "\n")
END
for t in gut skin blood; do
    unisono integrate z_$t.npy --meta m_$t.tsv --batch batch --batch site --regress depth --seed 3 -q -o c_$t.npy
done
unisono integrate z_ear.npy --meta m_ear.tsv --batch batch --batch site --seed 3 -q -o c_ear.npy
python3 - <<'END'
import json, npy
(n, d), z = npy.load("z.npy")
w = npy.load("w.npy")[1]
tissue = [l.split("\t")[3] for l in open("m.tsv").read().splitlines()[1:]]
for t in ("gut", "skin", "blood", "ear", "eye"):
    cells = [i for i in range(n) if tissue[i] == t]
    here = [x for i in cells for x in w[i * d:i * d + d]]
    apart = npy.load("c_%s.npy" % t)[1] if t != "eye" else [x for i in cells for x in z[i * d:i * d + d]]
    print(t, len(cells), "the same:", here == apart)
t = json.load(open("t.json"))
print(t["within"], t["sizes"]["cells"], t["reason"], "rounds" in t)
for r in t["runs"]:
    print(r["level"], r["sizes"]["cells"], r["sizes"]["clusters"], r["reason"], len(r["rounds"]), len(r["objective"]) > 0, len(r["warnings"]))
END
echo "# labels that are missing"
try run --within holes -o no.npy
run --within holes --missing skip -q -o skip.npy
run --within holes --missing level -o level.npy -v 2>&1 | sed -n 's/: start.*//p'
python3 - <<'END'
import npy
(n, d), z = npy.load("z.npy")
skip, level = npy.load("skip.npy")[1], npy.load("level.npy")[1]
holes = [i for i, l in enumerate(open("m.tsv").read().splitlines()[1:]) if l.split("\t")[6] == ""]
same = lambda a: all(a[i * d:i * d + d] == z[i * d:i * d + d] for i in holes)
print("skipped cells as they were:", same(skip), "a level of their own:", not same(level))
END
echo "# memory and threads"
run --within tissue --dry-run --threads 2 --backend cpu
run --within tissue --threads 1 -q -o one.npy && run --within tissue --threads 3 -q -o three.npy && cmp one.npy three.npy
echo "# wrong usage"
try run --within tissue -o no.npy --model no.npz
try run --within site -o no.npy
try run --within tisue -o no.npy
try run --within depth -o no.npy
ls no.* 2>/dev/null | wc -l
