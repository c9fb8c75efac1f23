#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the library, the CUDA plugin, check_cuda, bench_cuda and bench_open with gcc and nvcc alone: for a machine with a card but without CMake's
# needs (HDF5, cmocka, LAPACK). Usage: tests/cuda/device_build.sh FOLDER [nvcc flags]; everything lands in FOLDER.
set -eu
cd "$(dirname "$0")/../.."
out=$1
shift
mkdir -p "$out"
cc="gcc -std=gnu11 -DUNI_HAS_AMX -O2 -fPIC -Wall -Wextra -Wno-psabi -Iinclude -Isrc -Itests/cuda -DUNI_VERSION=\"0\""
nv="nvcc -std=c++17 -O3 -lineinfo -gencode=arch=compute_90a,code=sm_90a -DUNI_CUDA_HOPPER -Iinclude -Xcompiler -fPIC $*"
jobs=()
for f in src/cuda/*.cu; do
    $nv -c "$f" -o "$out/$(basename "$f" .cu).cu.o" &
    jobs+=($!)
done
for f in src/*.c src/cuda/*.c tests/cuda/*.c bench/bench_cuda.c bench/bench_open.c src/cpu/*.c src/metrics/lisi*.c src/metrics/ne*.c; do
    case $f in
    *cpu_kernels.c | *cpu_sets_arm64.c | *cpu_sets_other.c) continue ;;
    esac
    $cc -c "$f" -o "$out/$(basename "$f").o" &
    jobs+=($!)
done
set_of() {
    local name=$1
    shift
    $cc -O3 -Isrc/cpu -DUNI_VEC="\"vec_$name.h\"" "$@" -c src/cpu/cpu_kernels.c -o "$out/kernels_$name.c.o" &
    jobs+=($!)
}
set_of avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512
set_of amx -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512 -mamx-tile -mamx-bf16
set_of avx2 -mavx2 -mfma -mf16c
set_of plain -msse4.2
for j in "${jobs[@]}"; do wait "$j"; done
nvcc -shared -o "$out/libunisono_cuda.so" "$out"/*.cu.o
core=$(ls "$out"/*.c.o | grep -v -e check_cuda -e bench_cuda -e bench_open)
gcc -o "$out/check_cuda" "$out/check_cuda.c.o" $core -lm -lpthread -ldl
gcc -o "$out/bench_cuda" "$out/bench_cuda.c.o" $core -lm -lpthread -ldl
gcc -o "$out/bench_open" "$out/bench_open.c.o" $core -lm -lpthread -ldl
