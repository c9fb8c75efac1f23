# SPDX-License-Identifier: BSD-3-Clause
"""Runs for every level of a variable, apart, and their results as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._c import Missing
from ._labels import Variable
from ._numbers import Numbers
from ._options import Settings
from ._result import Result


class Results:
    """The results of :func:`unisono.harmonize` with ``within``: a :class:`Result` for every level.

    ``np.asarray(results)`` is the corrected embedding of all cells.

    Attributes
    ----------
    embedding
        (N, d) as of a :class:`Result`; cells that were not integrated are as they came.
    runs
        Result by level. Levels that could not be integrated are not there.
    cells
        Number of cells by level, in the order of the levels.
    unchanged
        The levels that came back as they were, for want of cells.
    within
        The variable's name.
    n_cells, n_skipped, n_dims
        Sizes; ``n_skipped`` counts all cells that were not integrated.
    converged
        Have all runs?
    reason, warnings
        In words; a warning names the level.
    """

    def __init__(
        self, embedding: Any, within: str, runs: dict[str, Result], cells: dict[str, int]
    ) -> None:
        self.embedding, self.within = embedding, within
        self.runs, self.cells = runs, cells
        self.unchanged = [level for level in cells if level not in runs]
        self.n_cells, self.n_dims = np.shape(embedding)
        self.n_skipped = self.n_cells - sum(r.n_cells - r.n_skipped for r in runs.values())
        self.converged = all(result.converged for result in runs.values())
        settled = sum(result.converged for result in runs.values())
        self.reason = f"{settled} of {len(cells)} runs converged"
        self.warnings: list[str] = []

    def close(self) -> None:
        """Closes every run; what was read stays."""
        for result in self.runs.values():
            result.close()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.embedding, dtype) if copy else np.asarray(self.embedding, dtype)

    def __repr__(self) -> str:
        return (
            f"<unisono.Results: {self.n_cells} cells x {self.n_dims} dimensions, "
            f"{len(self.runs)} runs within {self.within}: {self.reason}>"
        )


@dataclass
class Part:
    """One level's cells, as a run needs them."""

    level: str
    cells: np.ndarray
    variables: list[Variable]
    settings: Settings
    covariates: list[str]
    warnings: list[str]
    usable: bool


def check_within(within: Variable, n_cells: int, settings: Settings) -> None:
    name = within.name or "within"
    if len(within.level) != n_cells:
        raise ValueError(
            f'"{name}" has {len(within.level)} labels for {n_cells} cells; give one label per cell'
        )
    gone = np.flatnonzero(within.level < 0)
    if len(gone) and settings.c.missing == Missing.MISSING_ERROR:
        plural = "" if len(gone) == 1 else "s"
        raise ValueError(
            f'"{name}" has {len(gone)} missing label{plural}, the first at cell {gone[0] + 1} '
            "(from 1); fill them in, or set missing to skip (leave these cells uncorrected) or "
            "level (integrate them as a level of their own)"
        )


def parts(
    within: Variable,
    variables: Sequence[Variable],
    settings: Settings,
    weights: Numbers | None,
    covariates: Sequence[Numbers],
) -> Iterator[Part]:
    """The levels that have cells. Labels that look like a mistake were looked for among all."""
    names, level = list(within.names), within.level
    if settings.c.missing == Missing.MISSING_LEVEL and (level < 0).any():
        level = np.where(level < 0, len(names), level)
        names.append("(missing)")
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(len(names) + 1))
    for g, name in enumerate(names):
        cells = order[bounds[g] : bounds[g + 1]]
        if not len(cells):
            continue
        taken = [Variable(v.name, v.level[cells], v.names) for v in variables]
        labelled = np.all([v.level >= 0 for v in taken], axis=0)
        skips = settings.c.missing == Missing.MISSING_SKIP
        part = Part(name, cells, taken, settings.part(), [], [], True)
        part.usable = (int(labelled.sum()) if skips else len(cells)) >= 2
        columns = [x.at(cells) for x in covariates]
        varying = [x for x in columns if (x.value != x.value[0]).any()]
        for x in columns if part.usable else []:
            if not any(x is y for y in varying):
                part.warnings.append(
                    f"{x.name} is the same for all its cells, so it is not regressed out there"
                )
        part.settings.set_numbers(None if weights is None else weights.at(cells), varying)
        part.covariates = [x.name for x in varying]
        yield part
