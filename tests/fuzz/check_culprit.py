#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whose fault a death is, by reports as the sanitizers write them, with and without debug information of others' libraries. Closes with
"N passed, N failed".
"""
import os
import sys

import culprit

HDF5 = "in H5HG_read (/lib/x86_64-linux-gnu/libhdf5_serial.so.103+0x167b8d) (BuildId: e923ff05)"
BARE_HDF5 = "(/lib/x86_64-linux-gnu/libhdf5_serial.so.103+0x2beeff) (BuildId: e923ff05)"
OURS = "in io_h5_vector_next io/io/io/h5_vector.c:224:18"
OTHER_BUILD = "in io_h5_vector_next /somewhere/else/io/h5_vector.c:224:18"
TARGET = "in here_put tests/fuzz/tests/fuzz/h5ad_here.h:58:5"
INTERCEPTOR = "in __interceptor_memcpy (/tmp/b/fuzz_h5ad+0xb4625) (BuildId: 35a2d405)"
LIBC = "in raise (/lib/x86_64-linux-gnu/libc.so.6+0x3bfb1) (BuildId: 93ac61ec)"
LIBC_NAMED = "in __memcpy_avx_unaligned string/../sysdeps/x86_64/multiarch/memmove-vec-unaligned-erms.S:235"
LIBC_IO = "in __GI___libc_read io/../sysdeps/unix/sysv/linux/read.c:26:10"
ZLIB = "in inflate (/lib/x86_64-linux-gnu/libz.so.1+0x132b9) (BuildId: 1f95d549)"
FUZZER = "in fuzzer::Fuzzer::ExecuteCallback(unsigned char const*, unsigned long) (/tmp/b/fuzz_h5ad+0x7fa73) (BuildId: 893c)"
WATCHER = "in too_long tests/fuzz/tests/fuzz/fuzz_bounds.c:14:9"
RIGHT = "0x621000004d08 is located 0 bytes to the right of 4104-byte region [0x1,0x2)\nallocated by thread T0 here:"
FAR = RIGHT.replace("0 bytes to the right", "1200 bytes to the left")
FREED = "0x6 is located 8 bytes inside of 16-byte region\nfreed by thread T0 here:"


def stack(*frames):
    return "".join("    #%d 0x55d401fe25be %s\n" % (i, frame) for i, frame in enumerate(frames)) + "\n"


HEAD = "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x621000004d08 at pc 0x5 bp 0x7 sp 0x7\nWRITE of size 9\n"
CASES = [
    ("HDF5 dies", HEAD + stack(HDF5, OURS, FUZZER), "hdf5"),
    ("HDF5 dies, without names", HEAD + stack(BARE_HDF5, OURS), "hdf5"),
    ("HDF5 dies in a copy", HEAD + stack(INTERCEPTOR, HDF5, OURS), "hdf5"),
    ("HDF5 dies in a copy, and the C library has debug information", HEAD + stack(LIBC_NAMED, HDF5, OURS), "hdf5"),
    ("HDF5 dies in zlib", HEAD + stack(LIBC_NAMED, ZLIB, HDF5, OURS), "hdf5"),
    ("ours", HEAD + stack(OURS, FUZZER), "io_h5_vector_next"),
    ("ours, of a build whose paths are whole", HEAD + stack(OTHER_BUILD, FUZZER), "io_h5_vector_next"),
    ("ours in a copy", HEAD + stack(INTERCEPTOR, OURS, FUZZER), "io_h5_vector_next"),
    ("ours in a copy, and the C library has debug information", HEAD + stack(LIBC_NAMED, OURS), "io_h5_vector_next"),
    ("ours in the C library's io folder", HEAD + stack(LIBC_IO, OURS), "io_h5_vector_next"),
    ("ours, called back by HDF5", HEAD + stack(OURS, HDF5, OURS), "io_h5_vector_next"),
    ("what must hold does not, called back by HDF5", "does not hold\n" + stack(LIBC, LIBC, TARGET, OURS, HDF5), "here_put"),
    ("a buffer of ours is too small for what HDF5 was asked", HEAD + stack(INTERCEPTOR, HDF5, OURS) + RIGHT + "\n" +
     stack("in malloc (/tmp/b/fuzz_h5ad+0x11d40e)", "in io_room io/io/io_size.c:30:5", OURS), "io_room"),
    ("a buffer of HDF5's is too small", HEAD + stack(INTERCEPTOR, HDF5, OURS) + RIGHT + "\n" +
     stack("in malloc (/tmp/b/fuzz_h5ad+0x11d40e)", BARE_HDF5, OURS), "hdf5"),
    ("HDF5 writes anywhere, here near memory of ours", HEAD + stack(HDF5) + FAR + "\n" + stack(OURS), "hdf5"),
    ("ours uses what HDF5 freed", HEAD + stack(OURS) + FREED + "\n" + stack(HDF5), "io_h5_vector_next"),
    ("HDF5 uses what ours freed", HEAD + stack(HDF5, OURS) + FREED + "\n" + stack(OURS), "hdf5"),
    ("a leak", "Direct leak of 16 byte(s) in 1 object(s) allocated from:\n" + stack("in malloc (/tmp/b/x+0x1)", OURS), "io_h5_vector_next"),
    ("HDF5 takes too long", "takes too long\n" + stack("in __sanitizer_print_stack_trace (/tmp/b/x+0x1)", WATCHER, LIBC, BARE_HDF5, OURS), "hdf5"),
    ("ours takes too long", "takes too long\n" + stack("in __sanitizer_print_stack_trace (/tmp/b/x+0x1)", WATCHER, LIBC, OURS), "io_h5_vector_next"),
    ("nobody's", HEAD + stack(LIBC, FUZZER), "elsewhere"),
    ("a stack that was lost", HEAD, "nothing"),
]


def main():
    own = culprit.sources(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    failed = 0
    for name, report, expected in CASES:
        got = culprit.culprit(report, "/tmp/b/fuzz_h5ad", own)
        if got != expected:
            failed += 1
            print("FAILED: %s: %s, not %s" % (name, got, expected))
    print("%d passed, %d failed" % (len(CASES) - failed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
