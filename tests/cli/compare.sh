# What an integration changed, in words. Without it the numbers are those that the atlas was made with: shifts of length 1 and 0.5
# make two batches sqrt(2 (1 + 0.25)) = 1.58 apart on average.
unisono simulate -q --cells 20000 -o s.h5ad
unisono compare s.h5ad --batch batch --label cell_type --basis X_pca
unisono integrate s.h5ad --batch batch -q --in-place
unisono compare s.h5ad --batch batch --label cell_type
unisono compare s.h5ad --batch batch
try unisono compare s.h5ad --batch batch --basis X_umap
try unisono compare s.h5ad --batch batch --label celltype
