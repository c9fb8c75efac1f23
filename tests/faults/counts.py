# SPDX-License-Identifier: BSD-3-Clause
"""What a program of checks has counted, and its closing line."""


class Counts:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, right, what=""):
        self.passed += bool(right)
        self.failed += not right
        if not right:
            print("FAILED: %s: %s" % (name, what))

    def skip(self, name, why):
        self.skipped += 1
        print("skipped: %s: %s" % (name, why))

    def close(self):
        print("%d passed, %d failed%s" % (self.passed, self.failed, ", %d skipped" % self.skipped if self.skipped else ""))
