# SPDX-License-Identifier: BSD-3-Clause
"""Where messages go: a logger without level and handlers of its own, and a warning class."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

logger = logging.getLogger("unisono")
logger.addHandler(logging.NullHandler())  # an application that logs nothing hears nothing

_PACKAGE = str(Path(__file__).parent)


class UnisonoWarning(UserWarning):
    """Something about a run that its caller should know."""


def warn(sentence: str) -> None:
    """Warns at the line outside this package that called it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(sentence, UnisonoWarning, stacklevel=level)
