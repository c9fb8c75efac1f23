# SPDX-License-Identifier: BSD-3-Clause
"""progress=True: a bar where one can be seen, else messages through logging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._log import logger
from ._options import Settings
from ._run import Progress


def log_round(p: Progress) -> None:
    logger.info(
        "%sround %d of at most %d: objective %.6g, change %.3g, %.3g s",
        f"{p.level}: " if p.level else "",
        p.round,
        p.max_rounds,
        p.objective,
        p.change,
        p.seconds,
    )


def _new_bar(total: int, level: str) -> Any:
    """A tqdm bar, silent where nobody looks at it; None without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    in_notebook = tqdm.__module__.startswith("tqdm.notebook") or any(
        c.__name__ == "tqdm_notebook" for c in tqdm.__mro__
    )
    # None: no bar unless on a terminal. A notebook is no terminal, but shows one.
    return tqdm(
        total=total,
        desc=f"unisono {level}".rstrip(),
        unit="round",
        leave=False,
        disable=False if in_notebook else None,
    )


@contextmanager
def reporting(
    progress: bool | Callable[[Progress], Any] | None, settings: Settings, level: str = ""
) -> Iterator[Callable[[Progress], Any] | None]:
    """What is to be called after every round, or None. level: of which the run is."""
    if progress is None or progress is False or callable(progress):
        function = progress or None
        if function is not None and level:
            yield lambda p: function(p._replace(level=level))
        else:
            yield function
        return
    bar = _new_bar(settings.c.max_rounds, level)

    def show(p: Progress) -> bool:
        log_round(p._replace(level=level or None))
        if bar is not None:
            bar.update(p.round - bar.n)
            bar.set_postfix(change=f"{p.change:.3g}", refresh=False)
        return False

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()
