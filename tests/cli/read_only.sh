# A folder or file that may not be written: said before any work. Root may write everywhere, so it hands over to nobody. P98.
as() { "$@"; }
if [ "$(id -u)" = 0 ]; then
    need setpriv
    as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    chmod 755 .. && chown 65534 .
    as unisono --version >log 2>&1 || skip "nobody may not run the program where it lies"
    rm log
fi
attempt() {
    echo "\$ $*"
    as "$@" 2>&1
    echo "exit $?"
}
umask 022
as unisono simulate -q --cells 300 --dims 5 -o s.h5ad
mkdir closed
cp s.h5ad closed/s.h5ad
chmod a-w closed
attempt unisono integrate s.h5ad --batch batch -o closed/out.npy
attempt unisono integrate closed/s.h5ad --batch batch --in-place
attempt unisono integrate s.h5ad --batch batch -o out.npy --trace closed/t.json
attempt unisono integrate s.h5ad --batch batch -o out.npy --model closed/m/
chmod a-w s.h5ad
attempt unisono integrate s.h5ad --batch batch --in-place
attempt unisono integrate s.h5ad --batch batch -q -o out.h5ad
ls . closed
