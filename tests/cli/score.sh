# Scores before and after, on stdout as a table or JSON; the values of cells in obs, in a table and in .npy; what is refused. P117, P120.
unisono simulate -q --cells 3000 -o s.h5ad
unisono integrate s.h5ad --batch batch -q --in-place
unisono score s.h5ad --batch batch --label cell_type
unisono score s.h5ad --batch batch --label cell_type --threads 1 >one
unisono score s.h5ad --label cell_type --batch batch --threads 3 | cmp - one && echo "the same whatever the threads"
unisono score s.h5ad --batch batch --basis X_pca --sample 500 --json

# Every cell's value, in all three kinds of file the same; NaN where a cell was not looked at.
unisono score s.h5ad --batch batch --basis X_pca --sample 700 -o obs.h5ad >table
unisono score s.h5ad --batch batch --basis X_pca --sample 700 -o values.tsv | cmp - table
unisono score s.h5ad --batch batch --basis X_pca --sample 700 -o values.npy | cmp - table
head -n 1 values.tsv
echo "$(grep -vc nan values.tsv) lines with values"
mean=$(awk -F'\t' 'NR > 1 && $2 != "nan" { sum += $2; n++ } END { printf "%.4f", sum / n }' values.tsv)
[ "$(awk -F'\t' 'NR == 2 { printf "%.4f", $6 }' table)" = "$mean" ] && echo "their mean is the table's"
[ "$(wc -c <values.npy)" = $((128 + 4 * 3000)) ] && echo "a float for every cell in .npy"
try unisono score obs.h5ad --batch lisi_batch_X_pca --basis X_pca
try unisono score obs.h5ad --batch batch --basis X_pca --sample 700 -o obs.h5ad
unisono score obs.h5ad --batch batch --basis X_pca --sample 700 -f -o obs.h5ad | cmp - table && echo "written anew"

# Tables: rows by name, whatever their order.
waves 100 3 >z.tsv
alternating 100 >m.tsv
{ head -n 1 m.tsv; tail -n +2 m.tsv | sort -r; } >reversed.tsv
unisono score z.tsv --meta m.tsv --batch batch -o w.tsv
unisono score z.tsv --meta reversed.tsv --batch batch -o w2.tsv >/dev/null
cmp w.tsv w2.tsv
awk 'NR <= 21' z.tsv >few.tsv
awk 'NR <= 21' m.tsv | sed 's/^c7\ta/c7\t/' >fewm.tsv
unisono score few.tsv --meta fewm.tsv --batch batch 2>&1

try unisono score s.h5ad
try unisono score s.h5ad --batch batch --perplexity 1
try unisono score s.h5ad --batch batch --sample 0
try unisono score s.h5ad --batch batch --backend gpu
try unisono score s.h5ad --batch batch --device -1
UNISONO_CUDA_PLUGIN= try unisono score s.h5ad --batch batch --backend cuda
try unisono score s.h5ad --batch Batch
try unisono score s.h5ad --batch batch --basis X_umap
try unisono score z.tsv --batch batch
try unisono score z.tsv --meta m.tsv --batch batch -o z.h5ad
try unisono score s.h5ad --batch batch -o table.txt
try unisono score s.h5ad --batch batch -o none/x.tsv
[ ! -e none ]
