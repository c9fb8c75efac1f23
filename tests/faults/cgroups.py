# SPDX-License-Identifier: BSD-3-Clause
"""What a cgroup leaves of memory and of processors, version 1 and 2: groups that are made for it where this machine lets us, and files that
look like a machine's, in a mount namespace of their own. Closes with "N passed, N failed".
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

from counts import Counts

# The shell's own number stays when it becomes the program, whose groups the mounted file then tells.
INSIDE = """mount -t tmpfs tmpfs /sys/fs/cgroup && cp -r "$0/tree/." /sys/fs/cgroup && mount --bind "$0/groups" /proc/$$/cgroup || exit 77
exec "$@" """
MB = 1000000


class Groups(Counts):
    def __init__(self, program):
        self.program = os.path.abspath(program)
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="cgroups")
        self.file = os.path.join(self.folder, "s.h5ad")
        subprocess.run([self.program, "simulate", "-q", "--cells", "100000", "--dims", "2", "-o", self.file], check=True)

    def integrate(self, *options):
        return [self.program, "integrate", self.file, "--batch", "batch", "-q", "-o", os.path.join(self.folder, "o.npy")] + list(options)

    # ---- a machine of files

    def within(self, groups, tree, command):
        """Exit status, stdout and stderr where /sys/fs/cgroup and /proc/self/cgroup are these; None where that cannot be."""
        place = tempfile.mkdtemp(dir=self.folder)
        for path, text in dict(tree, **{"../groups": groups}).items():
            path = os.path.normpath(os.path.join(place, "tree", path))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        os.makedirs(os.path.join(place, "tree"), exist_ok=True)
        enter = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
        try:
            done = subprocess.run(enter + ["sh", "-c", INSIDE, place] + command, capture_output=True, text=True, timeout=300)
        except FileNotFoundError:
            return None
        return None if done.returncode == 77 or "unshare" in done.stderr else (done.returncode, done.stdout, done.stderr)

    def refused(self, name, groups, tree, left):
        """left: MB that the groups leave, of less than what 3000 clusters take; None: nothing is refused."""
        answer = self.within(groups, tree, self.integrate("--clusters", "3000", "--max-rounds", "0", *(["--dry-run"] if left is None else [])))
        if answer is None:
            return self.skip(name, "no mount namespace can be made here")
        status, out, err = answer
        if left is None:
            return self.check(name, status == 0, (status, err))
        numbers = re.search(r": this takes (\d+) MB of memory, and (\d+) (?:MB|bytes) are available", err)
        self.check(name, status == 1 and len(err.splitlines()) == 1 and numbers and int(numbers.group(1)) > int(numbers.group(2)) == left and
                   not os.path.exists(os.path.join(self.folder, "o.npy")), (status, err))

    def memory(self):
        def of(limit, used, cache, active=0, slab=0):
            stat = "anon 5\nfile 77\ninactive_anon 3\nactive_anon 2\ninactive_file %d\nactive_file %d\nslab_reclaimable %d\nslab 99\n"
            return {"memory.max": "%s\n" % limit, "memory.current": "%d\n" % used, "memory.stat": stat % (cache, active, slab)}

        def at(folder, files):
            return {os.path.join(folder, name): text for name, text in files.items()}

        self.refused("version 2, own group", "0::/user/job\n", at("user/job", of(300 * MB, 100 * MB, 50 * MB)), 250)
        self.refused("version 2, files read more than once", "0::/job\n", at("job", of(300 * MB, 200 * MB, 50 * MB, active=40 * MB)), 190)
        self.refused("version 2, what is known of many files", "0::/job\n", at("job", of(300 * MB, 200 * MB, 50 * MB, slab=30 * MB)), 180)
        self.refused("version 2, more to give up than is used", "0::/job\n", at("job", of(300 * MB, 100 * MB, 50 * MB, active=90 * MB)), 300)
        self.refused("version 2, a container's", "0::/\n", of(300 * MB, 100 * MB, 0), 200)
        self.refused("version 2, a group that is not to be seen", "0::/host/abc\n", of(300 * MB, 100 * MB, 0), 200)
        self.refused("version 2, a parent's is smaller", "0::/user/job\n",
                     dict(at("user", of(300 * MB, 200 * MB, 0)), **at("user/job", of(900 * MB, 100 * MB, 0))), 100)
        self.refused("version 2, none left", "0::/job\n", at("job", of(300 * MB, 301 * MB, 0)), 0)
        self.refused("version 2, no limit", "0::/job\n", at("job", of("max", 100 * MB, 0)), None)
        older = {"memory.limit_in_bytes": "300000000\n", "memory.usage_in_bytes": "100000000\n",
                 "memory.stat": "inactive_file 1\nactive_file 2\ntotal_inactive_file 30000000\ntotal_active_file 20000000\n"}
        self.refused("version 1", "5:memory:/job\n1:name=systemd:/\n0::/\n", at("memory/job", older), 250)

    def threads(self, name, groups, tree, expected):
        answer = self.within(groups, tree, self.integrate("--dry-run"))
        if answer is None:
            return self.skip(name, "no mount namespace can be made here")
        self.check(name, answer[0] == 0 and "threads: %d\n" % expected in answer[1], answer)

    def processors(self):
        have = len(os.sched_getaffinity(0))
        if have < 2:
            return self.skip("processors", "there is one, which no quota makes less")
        self.threads("version 2, own quota", "0::/a/b\n", {"a/b/cpu.max": "100000 100000\n"}, 1)
        self.threads("version 2, a parent's", "0::/a/b\n", {"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "max 100000\n"}, 1)
        self.threads("version 2, a container's", "0::/\n", {"cpu.max": "20000 100000\n"}, 1)
        self.threads("version 2, part of one more", "0::/a\n", {"a/cpu.max": "150000 100000\n"}, 2)
        self.threads("version 2, more than there are", "0::/a\n", {"a/cpu.max": "%d 100000\n" % (have * 100000 + 400000)}, have)
        self.threads("version 2, no quota", "0::/a\n", {"a/cpu.max": "max 100000\n"}, have)
        one = {"cpu/a/cpu.cfs_quota_us": "100000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}
        self.threads("version 1", "3:cpuset:/b\n2:cpu,cpuacct:/a\n0::/\n", one, 1)
        self.threads("version 1, no quota", "2:cpuacct,cpu:/a\n", dict(one, **{"cpu/a/cpu.cfs_quota_us": "-1\n"}), have)
        self.threads("version 1, another controller's", "2:cpuset:/a\n", one, have)

    # ---- this machine

    def own_processor(self):
        """A group of this machine's, with a quota of one processor."""
        if len(os.sched_getaffinity(0)) < 2:
            return self.skip("a quota of this machine's", "there is one processor")
        for folder, name, text in (("/sys/fs/cgroup", "cpu.max", "100000 100000"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000")):
            group = os.path.join(folder, "unisono-%d" % os.getpid())
            try:
                os.mkdir(group)
            except OSError:
                continue
            try:
                if os.path.exists(os.path.join(group, name)):
                    with open(os.path.join(group, name), "w") as f:
                        f.write(text)
                    done = subprocess.run(["sh", "-c", 'echo $$ >"$0/cgroup.procs" || exit 77; exec "$@"', group] + self.integrate("--dry-run"),
                                          capture_output=True, text=True, timeout=300)
                    if done.returncode != 77:
                        return self.check("a quota of this machine's", "threads: 1\n" in done.stdout, (done.stdout, done.stderr))
            except OSError:
                pass
            finally:
                os.rmdir(group)
        self.skip("a quota of this machine's", "no cgroup with one can be made here")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    groups = Groups(parser.parse_args().program)
    try:
        groups.memory()
        groups.processors()
        groups.own_processor()
    finally:
        shutil.rmtree(groups.folder)
    groups.close()
    return 1 if groups.failed else 0 if groups.passed else 77


if __name__ == "__main__":
    sys.exit(main())
