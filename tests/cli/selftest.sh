# Every backend against the closed form and the reference; a broken one is named, however it is broken. P14.
export UNISONO_CUDA_PLUGIN=
unisono selftest >table || echo "exit $?"
grep -c '^cpu (.*right' table | awk '{ print ($1 >= 1 ? "some" : "no") " instruction sets are right" }'
grep -c WRONG table
UNISONO_ISA=plain unisono selftest | tail -n +2 | cut -c1-24
try unisono selftest now
if [ -e "$BROKEN_PLUGIN" ]; then
    export UNISONO_CUDA_PLUGIN=$BROKEN_PLUGIN UNISONO_ISA=plain
    try unisono selftest
    BROKEN=open try unisono selftest
fi
