# SIGINT: 130, SIGTERM: 143; nothing is left behind.
unisono simulate -q --cells 20000 --dims 30 -o s.h5ad
for signal in INT TERM HUP; do
    timeout --preserve-status -s $signal 1.5 unisono integrate s.h5ad --batch batch -q --tol -1 --max-rounds 100000 -o out.h5ad
    echo "$signal: exit $?"
done
ls -A
