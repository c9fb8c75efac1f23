# SPDX-License-Identifier: BSD-3-Clause
"""kill -9 at random moments of an --in-place run: the file is the old one or the one of a whole run, byte for byte, every time. Both are
opened with anndata where there is one (tests/io/with_anndata). Half of the moments are drawn from the whole run, half from the time in
which there is a temporary file. Closes with "N passed, N failed".
"""
import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import anndata
except ImportError:
    anndata = None


def digest(path):
    whole = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 24), b""):
            whole.update(piece)
    return whole.hexdigest()


def unfinished():
    return [n for n in os.listdir(".") if n.endswith(".tmp")]


def opens(path, key):
    """Is it an AnnData file, with the entry of that key or without?"""
    if not anndata:
        return
    data = anndata.read_h5ad(path, backed="r")
    assert ("X_pca_harmony" in data.obsm) == key and data.n_obs > 0, path
    data.file.close()


class Campaign:
    def __init__(self, program, cells, dims):
        self.command = [program, "integrate", "a.h5ad", "--batch", "batch", "--in-place", "-q", "--max-rounds", "1", "--clusters", "8"]
        subprocess.check_call([program, "simulate", "-q", "--cells", str(cells), "--dims", str(dims), "-o", "old.h5ad"])
        self.restore()
        start = time.monotonic()
        process = subprocess.Popen(self.command)
        while not unfinished() and process.poll() is None:
            time.sleep(0.0005)
        self.before = time.monotonic() - start
        assert process.wait() == 0
        self.span = time.monotonic() - start
        self.stretch = 1.0  # of the moments, so that they are of the whole run also when the machine is slower than at first
        self.old, self.new = digest("old.h5ad"), digest("a.h5ad")
        assert self.old != self.new
        opens("old.h5ad", False)
        opens("a.h5ad", True)
        print("a file of %.1f MB, a run of %.2f s of which %.2f s with a temporary file; %s" %
              (os.path.getsize("old.h5ad") / 1e6, self.span, self.span - self.before,
               "both open in anndata %s" % anndata.__version__ if anndata else "no anndata here to open them with"), flush=True)

    def restore(self):
        """A link: who would write into the file would change the old one too, and be noticed."""
        for name in unfinished() + ["a.h5ad"]:
            if os.path.exists(name):
                os.remove(name)
        os.link("old.h5ad", "a.h5ad")

    def kill(self, in_writing):
        """What there is afterwards: its digest, was the run still at work, and was there a temporary file."""
        process = subprocess.Popen(self.command)
        if in_writing:
            while not unfinished() and process.poll() is None:
                time.sleep(0.0005)
            time.sleep(random.random() * (self.span - self.before) * self.stretch)
        else:
            time.sleep(random.random() * self.span * self.stretch)
        process.send_signal(signal.SIGKILL)
        killed = process.wait() == -signal.SIGKILL
        # One in ten comes after the end.
        self.stretch *= 1.02 if killed else 0.84
        return digest("a.h5ad"), killed, bool(unfinished())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cells", type=int, default=20000)
    parser.add_argument("--dims", type=int, default=20)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    folder = tempfile.mkdtemp(prefix="kill")
    program = os.path.abspath(options.program)
    os.chdir(folder)
    wrong = old = new = late = left = 0
    try:
        campaign = Campaign(program, options.cells, options.dims)
        for i in range(options.times):
            campaign.restore()
            found, killed, temporary = campaign.kill(i % 2 == 1)
            old += found == campaign.old
            new += found == campaign.new
            late += not killed
            left += temporary
            if found not in (campaign.old, campaign.new):
                wrong += 1
                print("FAILED: kill %d (seed %d) left a file that is neither old nor new" % (i + 1, options.seed))
            if i % 100 == 99:
                print("%d kills: %d old, %d new, %d wrong" % (i + 1, old, new, wrong), flush=True)
        # What a killed run leaves does not disturb the next.
        campaign.restore()
        assert subprocess.call(campaign.command) == 0 and digest("a.h5ad") == campaign.new
        opens("a.h5ad", True)
    finally:
        shutil.rmtree(folder)
    print("%d kills: %d left the old file, %d the new one, %d neither; %d while there was a temporary file, %d after the run's end" %
          (options.times, old, new, wrong, left, late))
    assert left > 0 and old > 0
    print("%d passed, %d failed" % (options.times - wrong, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
