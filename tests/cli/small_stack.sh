# 256 KB of stack are enough, in every thread: no function's share of it depends on the data.
sanitized && skip "the sanitizers take more stack"
unisono simulate -q --cells 3000 --dims 60 -o s.h5ad
awk 'BEGIN { print "cell\tbatch\tchemistry"; for (i = 1; i <= 3000; i++) print "cell" i "\tb" i % 40 "\tc" i % 3 }' >m.tsv
small() { bash -c 'ulimit -s 256 && exec "$@"' small "$@"; echo "exit $?"; }
small unisono integrate s.h5ad --batch batch --batch cell_type --threads 4 -q -o out.h5ad --model m.npz --trace t.json
small unisono integrate s.h5ad --meta m.tsv --batch batch --batch chemistry --threads 4 -q -o out.csv.gz
small unisono compare out.h5ad --batch batch --label cell_type | tail -n 1
