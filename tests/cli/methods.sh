# flavor and compat preset other options wherever they stand; what is given beside them wins; what was used is in the last line, the trace
# and uns. Every method is another computation, and none depends on the number of threads. P78.
need python3
unisono simulate -q --cells 2000 --dims 6 --levels 3 --seed 4 -o s.npy --meta-out m.tsv
run() { unisono integrate s.npy --meta m.tsv --batch batch -q -f --trace t.json -o "$@"; }
used() { python3 -c 'import json; p = json.load(open("t.json"))["parameters"]; print(*(p[k] for k in "flavor compat update overcorrect stop tol sweeps sweep-tol".split()))'; }
run plain.npy && used
run v1.npy --flavor harmony1 && used
run v1_sweeps.npy --sweeps 7 --flavor harmony1 --tol 1e-3 && used
run v1_sweeps2.npy --flavor harmony1 --tol 1e-3 --sweeps 7 && cmp v1_sweeps.npy v1_sweeps2.npy
run r.npy --stop change --compat r-2.0.4 && used
run both.npy --compat r-2.0.4 --flavor harmony1 && used
run both2.npy --flavor harmony1 --compat r-2.0.4 && used && cmp both.npy both2.npy
run jacobi.npy --update jacobi && used
run over.npy --overcorrect 1.5 && used
for a in v1 r both jacobi over; do
    cmp -s plain.npy $a.npy && echo "$a is plain"
done
for o in "--flavor harmony1" "--compat r-2.0.4" "--update jacobi" "--overcorrect 1.5"; do
    # shellcheck disable=SC2086 # two words
    run one.npy $o --threads 1 && run three.npy $o --threads 3 && cmp one.npy three.npy
done
unisono integrate s.npy --meta m.tsv --batch batch -o o.npy --update jacobi --flavor harmony1 2>&1 | sed 's/;.*//'
try unisono integrate s.npy --meta m.tsv --batch batch -o no.npy --flavor harmony3
try unisono integrate s.npy --meta m.tsv --batch batch -o no.npy --overcorrect 2.5
try unisono integrate s.npy --meta m.tsv --batch batch -o no.npy --flavor
