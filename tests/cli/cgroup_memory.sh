# A cgroup's memory limit (v1 or v2) lower than what a run takes: refused before any work, with both numbers; a run that fits runs.
group=
for limit in /sys/fs/cgroup/memory/unisono-$$/memory.limit_in_bytes /sys/fs/cgroup/unisono-$$/memory.max; do
    mkdir "${limit%/*}" 2>/dev/null || continue
    if echo 200000000 2>/dev/null >"$limit" && [ -w "${limit%/*}/cgroup.procs" ]; then
        group=${limit%/*}
        break
    fi
    rmdir "${limit%/*}"
done
[ -n "$group" ] || skip "no cgroup with a memory limit can be made here"
sanitized && { rmdir "$group"; skip "AddressSanitizer takes memory of its own"; }
unisono simulate -q --cells 100000 --dims 2 -o s.h5ad
within() { bash -c 'echo $$ >"$0/cgroup.procs" || exit 77; exec "$@" 2>&1' "$group" "$@"; echo "exit $?"; }
within unisono integrate s.h5ad --batch batch --clusters 3000 -q -o big.npy
within unisono integrate s.h5ad --batch batch --clusters 20 --max-rounds 1 -q -o small.npy
ls
rmdir "$group"
