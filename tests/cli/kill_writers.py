# SPDX-License-Identifier: BSD-3-Clause
"""Starts writing runs and kills each at a random moment after its temporary file has appeared."""
import hashlib
import os
import random
import shutil
import signal
import subprocess
import time

random.seed(1)
RUN = ["--batch", "batch", "-q", "-f", "--max-rounds", "0"]


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def unfinished():
    return [n for n in os.listdir(".") if n.endswith(".tmp")]


def start(arguments):
    return subprocess.Popen(["unisono", "integrate"] + arguments + RUN)


def wait_for_writing(process):
    while not unfinished() and process.poll() is None:
        pass
    return time.monotonic()


def campaign(name, target, arguments, kill, times):
    """target is old.bin at the start of every run"""
    old = digest("old.bin")
    shutil.copy("old.bin", target)
    process = start(arguments)
    begun = wait_for_writing(process)
    assert process.wait() == 0
    span = time.monotonic() - begun
    new = digest(target)
    assert new != old
    seen = {old: 0, new: 0}
    for _ in range(times):
        for left in unfinished():
            os.remove(left)
        shutil.copy("old.bin", target)
        process = start(arguments)
        wait_for_writing(process)
        time.sleep(random.random() * span)
        process.send_signal(kill)
        status = process.wait()
        assert status in (0, -kill, 128 + kill), status
        found = digest(target)
        assert found in seen, "%s: neither old nor new after signal %d" % (target, kill)
        seen[found] += 1
        if kill != signal.SIGKILL:
            assert not unfinished(), unfinished()
    left = unfinished()
    shutil.copy("old.bin", target)
    assert start(arguments).wait() == 0
    assert digest(target) == new, "the next run gives another file"
    assert unfinished() == left
    for n in left:
        os.remove(n)
    print("%s: %d runs ended by signal %d, target always whole" % (name, times, kill))
    assert seen[old] > 0, "every kill came too late: %r" % seen


# over another file, and over an entry of the same file
subprocess.check_call(["unisono", "simulate", "-q", "--cells", "500", "-o", "old.bin.h5ad"])
os.rename("old.bin.h5ad", "old.bin")
campaign("-o", "out.h5ad", ["s.h5ad", "-o", "out.h5ad"], signal.SIGKILL, 50)
campaign("-o", "out.h5ad", ["s.h5ad", "-o", "out.h5ad"], signal.SIGTERM, 10)
subprocess.check_call(["unisono", "integrate", "s.h5ad", "--batch", "batch", "-q", "-o", "first.h5ad", "--max-rounds", "1", "--clusters", "3"])
os.rename("first.h5ad", "old.bin")
campaign("--in-place", "in.h5ad", ["in.h5ad", "--in-place"], signal.SIGKILL, 50)
campaign("--in-place", "in.h5ad", ["in.h5ad", "--in-place"], signal.SIGTERM, 10)
