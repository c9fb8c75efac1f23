# SPDX-License-Identifier: BSD-3-Clause
"""The build backend: scikit-build-core's, plus the C sources in the sdist.

The library's sources lie outside this folder (``../../src``, ``../../include``), where a wheel can
be built from them but an sdist cannot reach. While an sdist is made they are therefore copied to
``csrc``, which CMakeLists.txt prefers where it exists.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scikit_build_core import build as _build
from scikit_build_core.build import *

HERE = Path(__file__).resolve().parent.parent
COPY = HERE / "csrc"
NEEDED = ("CMakeLists.txt", "LICENSE", "include", "src")


@contextmanager
def _sources_inside() -> Iterator[None]:
    root = HERE.parent.parent
    if COPY.exists() or not (root / "include" / "unisono.h").exists():
        yield  # an unpacked sdist has them already
        return
    try:
        COPY.mkdir()
        for name in NEEDED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, COPY / name)
            else:
                shutil.copy2(source, COPY / name)
        yield
    finally:
        shutil.rmtree(COPY)


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    with _sources_inside():
        return _build.build_sdist(sdist_directory, config_settings)
