# SPDX-License-Identifier: BSD-3-Clause
"""A machine that fails, and others at work on the same files: full disks, closed pipes, locks, and what happens between two calls of a run,
which failing_calls.c stops there. Closes with "N passed, N failed".
"""
import argparse
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from counts import Counts

RUN = ["--batch", "batch", "--clusters", "5", "--max-rounds", "2", "--threads", "1", "-q"]
LABELS = ["--meta", "m.tsv"]


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class Machine(Counts):
    def __init__(self, options):
        self.options = options
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="machine")
        self.start = os.path.join(self.root, "start")
        os.mkdir(self.start)
        self.folder = self.start
        self.tool("simulate", "-q", "--cells", "3000", "--dims", "10", "-o", "s.h5ad")
        self.tool("integrate", "s.h5ad", "--batch", "batch", "--max-rounds", "0", "-q", "-o", "s.npy")
        self.tool("integrate", "s.h5ad", "--batch", "batch", "--max-rounds", "0", "-q", "-o", "s.tsv.gz")
        os.mkdir(os.path.join(self.start, "away"))
        with open(os.path.join(self.start, "m.tsv"), "w") as f:
            f.write("cell\tbatch\n")
            f.writelines("cell%d\t%s\n" % (i, "ab"[i % 2]) for i in range(1, 3001))

    def tool(self, *arguments):
        subprocess.run([self.options.program] + list(arguments), cwd=self.folder, check=True)

    def fresh(self):
        self.folder = tempfile.mkdtemp(dir=self.root)
        shutil.copytree(self.start, self.folder, dirs_exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, **more):
        kept = dict(os.environ, LC_ALL="C", ASAN_OPTIONS="verify_asan_link_order=0:exitcode=99")
        kept["LSAN_OPTIONS"] = "print_suppressions=0:suppressions=" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "leaks_of_others")
        return dict(kept, **more)

    def run(self, arguments, **settings):
        done = subprocess.run([self.options.program] + arguments, cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, **settings)
        return done.returncode, done.stderr

    def number_of(self, arguments, function, which):
        """The number of the which-th call of a function in a run; what the run leaves is removed."""
        kept, listed = self.folder, os.path.join(self.root, "list")
        self.fresh()
        subprocess.run([self.options.program] + arguments, cwd=self.folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=self.environment(LD_PRELOAD=self.options.shim, FAULTS_LIST=listed))
        self.folder = kept
        with open(listed) as f:
            lines = [line.split() for line in f]
        # of the program's own process: a child that reads may not stop itself
        return [line[0] for line in lines if line[2] == function and int(line[0]) < 1000000][which]

    def meanwhile(self, arguments, function, which, change):
        """Runs up to that call, lets the world change, and goes on."""
        number = self.number_of(arguments, function, which)
        process = subprocess.Popen([self.options.program] + arguments, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env=self.environment(LD_PRELOAD=self.options.shim, FAULTS_AT=number, FAULTS_HOW="stop"))
        while True:
            with open("/proc/%d/stat" % process.pid) as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
            if state in "TZ":
                break
            time.sleep(0.002)
        change()
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=120)
        return process.returncode, err, state == "T"

    def failed_well(self, name, status, err, word, absent=()):
        """Exit 1, one sentence with that word, nothing unfinished left, these files not there."""
        lines = err.splitlines()
        left = [n for n in os.listdir(self.folder) if n.endswith(".tmp") or n in absent] if os.path.isdir(self.folder) else []
        self.check(name, status == 1 and len(lines) == 1 and lines[0].startswith("unisono: ") and word in lines[0] and not left,
                   "status %s, left %s, %s" % (status, left, err))

    # ---- the cases

    def full_disk(self):
        self.fresh()
        place = os.path.join(self.folder, "small")
        room = os.path.getsize(self.path("s.h5ad")) + 60000  # half of what the smallest output takes
        os.mkdir(place)
        if os.geteuid() != 0 or subprocess.call(["mount", "-t", "tmpfs", "-o", "size=%d" % room, "tmpfs", place], stderr=subprocess.DEVNULL):
            return self.skip("full disk", "no small file system can be mounted here")
        try:
            shutil.copy(self.path("s.h5ad"), place)
            before = digest(os.path.join(place, "s.h5ad"))
            whole = self.folder
            self.folder = place
            for out in ("o.h5ad", "o.npy", "o.tsv"):
                status, err = self.run(["integrate", "../s.h5ad", "-o", out] + RUN)
                self.failed_well("full disk, -o " + out, status, err, "o", [out])
            status, err = self.run(["integrate", "s.h5ad", "--in-place"] + RUN)
            self.failed_well("full disk, --in-place", status, err, "s.h5ad")
            self.check("full disk leaves the file", digest(os.path.join(place, "s.h5ad")) == before)
            status, err = self.run(["simulate", "-q", "--cells", "20000", "-o", "new.h5ad"])
            self.failed_well("full disk, simulate", status, err, "new.h5ad", ["new.h5ad"])
            self.folder = whole
        finally:
            subprocess.call(["umount", place])

    def closed_pipe(self):
        self.fresh()
        for arguments in (["integrate", "s.h5ad", "--batch", "batch", "--dry-run"], ["--help"], ["compare", "s.h5ad", "--batch", "batch", "--basis", "X_pca"]):
            ends = os.pipe()
            os.close(ends[0])
            done = subprocess.run([self.options.program] + arguments, cwd=self.folder, env=self.environment(), stdout=ends[1],
                                  stderr=subprocess.PIPE, text=True)
            os.close(ends[1])
            self.failed_well("stdout is a closed pipe: " + arguments[0], done.returncode, done.stderr, "Broken pipe")

    def locked(self):
        self.fresh()
        with open(self.path("s.h5ad"), "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            for arguments in (["integrate", "s.h5ad", "-o", "o.npy"] + RUN, ["integrate", "s.h5ad", "--in-place"] + RUN):
                status, err = self.run(arguments)
                self.failed_well("locked by a writer", status, err, "is locked", ["o.npy"])

    def ended(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for function in ("fsync", "rename"):
                self.fresh()
                before = digest(self.path("s.h5ad"))
                arguments = ["integrate", "s.h5ad", "--in-place"] + RUN
                held = []
                status, _, stopped = self.meanwhile(arguments, function, 0, lambda: held.append(None))
                self.check("a run that is only held goes on", stopped and status == 0, status)
                self.fresh()
                number_of_call = self.number_of(arguments, function, 0)
                process = subprocess.Popen([self.options.program] + arguments, cwd=self.folder, stderr=subprocess.DEVNULL,
                                           env=self.environment(LD_PRELOAD=self.options.shim, FAULTS_AT=number_of_call, FAULTS_HOW="stop"))
                os.waitpid(process.pid, os.WUNTRACED)
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)
                status = process.wait()
                left = [n for n in os.listdir(self.folder) if n.endswith(".tmp")]
                self.check("%s before %s" % (signal.Signals(number).name, function),
                           status == 128 + number and not left and digest(self.path("s.h5ad")) == before, (status, left))

    def target(self):
        def put(name):
            with open(self.path(name), "w") as f:
                f.write("of another")

        self.fresh()
        arguments = ["integrate", "s.npy", "-o", "new.npy"] + LABELS + RUN
        status, err, stopped = self.meanwhile(arguments, "renameat2", 0, lambda: put("new.npy"))
        self.failed_well("target made meanwhile", status, err, "meanwhile")
        with open(self.path("new.npy")) as f:
            self.check("target made meanwhile is left as it is", stopped and f.read() == "of another")

        self.fresh()
        status, err, stopped = self.meanwhile(["integrate", "s.h5ad", "--in-place"] + RUN, "rename", 0, lambda: os.remove(self.path("s.h5ad")))
        self.check("target removed meanwhile", stopped and status == 0 and os.path.exists(self.path("s.h5ad")), err)

        def left_alone(name, arguments, function, which, changed, word, absent=()):
            self.fresh()
            status, err, stopped = self.meanwhile(arguments, function, which, lambda: put(changed))
            self.failed_well(name, status, err, word, absent)
            with open(self.path(changed), "rb") as f:
                self.check(name + ", which is left as it is", stopped and f.read() == b"of another")

        shutil.copy(os.path.join(self.start, "s.npy"), os.path.join(self.start, "old.npy"))
        left_alone("target changed meanwhile", ["integrate", "s.npy", "-f", "-o", "old.npy"] + LABELS + RUN, "fsync", 0, "old.npy", "was changed by")
        in_place = ["integrate", "s.h5ad", "--in-place"] + RUN
        scores = ["score", "s.h5ad", "--batch", "batch", "--basis", "X_pca", "-q", "-o", "o.h5ad"]
        left_alone("input changed before its result replaces it", in_place, "fsync", 0, "s.h5ad", "was changed by")
        # The last child is the one that copies: what it finds is no longer what was read.
        left_alone("input changed before its result is added", in_place, "socketpair", -1, "s.h5ad", "s.h5ad")
        for arguments in (in_place, ["integrate", "s.h5ad", "-o", "o.h5ad"] + RUN, scores):
            self.fresh()
            self.tool("simulate", "-q", "--cells", "3000", "--dims", "10", "--seed", "7", "-o", "other.h5ad")
            other = digest(self.path("other.h5ad"))
            status, err, stopped = self.meanwhile(arguments, "socketpair", -1, lambda: os.replace(self.path("other.h5ad"), self.path("s.h5ad")))
            self.failed_well("another file in the place of the input", status, err, "run again", ["o.h5ad"])
            self.check("which stays", stopped and digest(self.path("s.h5ad")) == other)

        self.fresh()
        status, err, stopped = self.meanwhile(["integrate", "s.npy", "-o", "away/new.npy"] + LABELS + RUN, "fsync", 0,
                                              lambda: shutil.rmtree(self.path("away")))
        self.check("a run that had begun", stopped)
        self.failed_well("folder of the target removed meanwhile", status, err, "away/new.npy")

    def truncated(self):
        def cut(name):
            os.truncate(self.path(name), os.path.getsize(self.path(name)) // 3)

        for name, function, which in (("s.npy", "pread", -1), ("s.h5ad", "send", 0), ("s.tsv.gz", "read", -1)):
            self.fresh()
            arguments = ["integrate", name, "-o", "new.npy"] + (LABELS if name != "s.h5ad" else []) + RUN
            try:
                status, err, stopped = self.meanwhile(arguments, function, which, lambda: cut(name))
            except IndexError:
                self.check("%s is read by %s" % (name, function), False)
                continue
            if status == 0 and name != "s.h5ad":
                self.check("%s was read before it was cut" % name, stopped and os.path.exists(self.path("new.npy")), err)
            else:
                self.failed_well("%s truncated while it is read" % name, status, err, name, ["new.npy"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--shim", required=True)
    options = parser.parse_args()
    options.program, options.shim = os.path.abspath(options.program), os.path.abspath(options.shim)
    machine = Machine(options)
    try:
        for case in (machine.full_disk, machine.closed_pipe, machine.locked, machine.target, machine.truncated, machine.ended):
            case()
    finally:
        shutil.rmtree(machine.root)
    machine.close()
    return 1 if machine.failed or not machine.passed else 0


if __name__ == "__main__":
    sys.exit(main())
