# Every kind of option; the sentence names the option, the value and the range, and nothing is read or written. P49, P50, P51, P79.
for option in sigma=0 sigma=-0.1 sigma=nan sigma= sigma=0.1x theta=-3 theta=NA theta=1,-1 theta=1, tau=-1 lambda=0 lambda=-1 alpha=0 alpha=inf \
    cutoff=1.5 cutoff=-0.1 max-rounds=-1 max-rounds=1.5 sweeps=0 stop=never tol=nan block-size=0 block-size=1.5 update=block seed=-1 \
    missing=drop precision=double backend=gpu threads=0 threads=-1 threads=1.5 clusters=-2 clusters=0; do
    try unisono integrate none.h5ad --batch b -o out.h5ad "--${option%%=*}" "${option#*=}"
done
ls
