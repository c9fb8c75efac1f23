# SPDX-License-Identifier: BSD-3-Clause
"""What a run left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import _c
from ._diagnostics import Diagnostics, diagnose_arrays, encode_types
from ._embedding import Embedding
from ._labels import Variable, joined
from ._run import Report, Run

_MODEL = ("R", "Y", "Y_start", "O", "E", "lambda_", "W", "theta", "sigma")


class Result:
    """The result of :func:`unisono.harmonize`.

    The corrected embedding is there at once; the other arrays are made when they are asked for, and
    kept. Until :meth:`close` is called, or the object is gone, the library's memory of the run
    stays for them. A result can be pickled and copied: it then holds all of its arrays.
    ``np.asarray(result)`` is the corrected embedding.

    N cells, d dimensions, K clusters, B levels of all batch variables in order.

    Attributes
    ----------
    embedding
        (N, d) float32, the embedding with the batch effect removed; a DataFrame with the same names
        where one was given. Cells without a label (``missing="skip"``) are as they came.
    R
        (N, K) float32, soft assignments; rows sum to 1, those of skipped cells are zeros.
    Y
        (K, d) float32, centroids after the last correction, of unit length.
    Y_start
        (K, d) float32, the centroids that the run started from.
    O, E
        (B, K) float64, observed and expected cells of a level in a cluster.
    lambda_
        (B, K) float64, ridge penalty; 0 where the pair was left out.
    W
        (B, K, d) float32, what a cell of the level loses per unit of assignment.
    slopes
        (X, K, d) float32, of X covariates: what a cell loses per unit of assignment and of the
        covariate, centred and scaled to unit spread.
    theta
        (B,) float64, per level, after tau.
    sigma
        (K,) float64.
    blocks
        (N,) int32, the block of each cell in the sweeps; -1 for skipped cells.
    diagnostics
        :class:`Diagnostics`: how far batches, clusters and (:meth:`diagnose`) cell types moved, and
        warnings where that went too far or rests on too little.
    variables
        The batch variables' names; with ``combine`` there is one, ``"donor | site"``.
    levels
        One list of level names per variable, in the order of the rows of O.
    covariates
        The names of what was regressed out.
    n_cells, n_skipped, n_dims, n_levels, n_clusters
        Sizes; ``n_levels`` counts levels with cells.
    rounds
        One dict per round: ``sweeps``, ``objective``, ``objective_change``, ``change``,
        ``pruned_pairs``, ``skipped_clusters``, ``seconds``.
    objectives
        One dict per sweep whose objective was computed: ``round``, ``sweep`` (0, 0: the start),
        ``total``, ``distance``, ``entropy`` (NaN unless ``terms``), ``diversity``.
    n_rounds, converged, reason
        How it ended; ``reason`` in words.
    warnings
        The library's sentences.
    seconds
        Time per stage.
    parameters
        Every option as text, the defaults included.
    version, backend, threads, bytes, bytes_card
        Of the library, what computed, and the memory it took: of the machine, and of a card.
    """

    n_cells: int
    n_skipped: int
    n_dims: int
    n_levels: int
    n_clusters: int
    n_variables: int

    def __init__(
        self,
        run: Run,
        report: Report,
        embedding: Any,
        variables: list[Variable],
        parameters: Mapping[str, str],
        covariates: Sequence[str] = (),
    ) -> None:
        self._run: Run | None = run
        self._report = report
        self.embedding = embedding
        self._labels = [Variable(v.name, v.level, list(v.names)) for v in variables]
        missing_is_level = parameters.get("missing") == "level"
        if parameters.get("combine") == "yes" and len(variables) > 1:
            variables = [joined(variables, missing_is_level)]
        self.variables = [v.name or "batch" for v in variables]
        self.levels = [list(v.names) for v in variables]
        if missing_is_level:
            for names, variable in zip(self.levels, variables):
                if (variable.level < 0).any():
                    names.append("(missing)")
        self.covariates = list(covariates)
        self.parameters = dict(parameters)
        self.version = _c.text(_c.library.uni_version())
        for name, size in report.sizes.items():
            setattr(self, name, size)
        self.rounds, self.objectives = report.rounds, report.objectives
        self.n_rounds = len(report.rounds)
        self.converged = report.reason == _c.Reason.CONVERGED
        self.reason = report.reason_text
        self.warnings, self.seconds = report.warnings, report.seconds
        self.backend, self.threads = report.backend, report.threads
        self.bytes, self.bytes_card = report.bytes, report.bytes_card

    def _read(self, what: _c.Array) -> np.ndarray:
        if self._run is None:
            raise RuntimeError("this result was closed; read what you need before")
        return self._run.read(what)

    @cached_property
    def R(self) -> np.ndarray:
        return self._read(_c.Array.ASSIGNMENTS)

    @cached_property
    def Y(self) -> np.ndarray:
        return self._read(_c.Array.CENTROIDS)

    @cached_property
    def Y_start(self) -> np.ndarray:
        return self._read(_c.Array.START)

    @cached_property
    def O(self) -> np.ndarray:
        return self._read(_c.Array.OBSERVED)

    @cached_property
    def E(self) -> np.ndarray:
        return self._read(_c.Array.EXPECTED)

    @cached_property
    def lambda_(self) -> np.ndarray:
        return self._read(_c.Array.LAMBDA)

    @cached_property
    def W(self) -> np.ndarray:
        return self._read(_c.Array.CORRECTION)

    @cached_property
    def slopes(self) -> np.ndarray:
        if not self.covariates:
            return np.zeros((0, self.n_clusters, self.n_dims), np.float32)
        return self._read(_c.Array.SLOPES)

    @cached_property
    def theta(self) -> np.ndarray:
        return self._read(_c.Array.THETA)

    @cached_property
    def sigma(self) -> np.ndarray:
        return self._read(_c.Array.SIGMA)

    @cached_property
    def blocks(self) -> np.ndarray:
        return self._read(_c.Array.BLOCKS)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        return self.diagnose()

    def diagnose(self, types: Any = None) -> Diagnostics:
        """Did the correction go too far, or rest on too little?

        Without types this is :attr:`diagnostics`.

        Parameters
        ----------
        types : (n_cells,), optional
            The cell type of each cell, as labels are given; missing where it is not known. With
            them the tables say how far every type moved, and what of its own spread went.

        Returns
        -------
        Diagnostics
        """
        if self._run is None:
            raise RuntimeError("this result was closed; diagnose before")
        before, after = (
            Embedding(self._read(what)) for what in (_c.Array.GIVEN, _c.Array.CORRECTED)
        )
        return self.diagnose_of(before, after, types)

    def diagnose_of(self, before: Embedding, after: Embedding, types: Any = None) -> Diagnostics:
        """:meth:`diagnose` where the embeddings are at hand: before, and the result."""
        labels = [Variable(v.name, v.level, v.names) for v in self._labels]
        cells = encode_types(types)
        if cells is not None:
            from ._api import align

            embedding = Embedding(after.values, getattr(self.embedding, "index", None))
            cells = align(cells, embedding)
        if self._run is None:
            raise RuntimeError("this result was closed; diagnose before")
        return self._run.use(lambda pointer: diagnose_arrays(pointer, before, after, labels, cells))

    @property
    def unchanged(self) -> bool:
        """Did the run change nothing (one level, no rounds)? There is then only ``embedding``."""
        return self._report.reason in (_c.Reason.ONE_LEVEL, _c.Reason.NO_ROUNDS)

    def model(self) -> dict[str, np.ndarray]:
        """What the result was made of, under the names that the program's ``--model`` has: R, Y,
        Y_start, O, E, lambda, W, theta, sigma, and with covariates slopes. The corrected embedding
        is ``Z - R W`` with the W of each cell's level, or ``Z - R (W + x slopes)`` with a cell's
        covariates x, centred and scaled.
        """
        if self.unchanged:
            raise ValueError(f"this run has no model: {self.reason}")
        names = (*_MODEL, "slopes") if self.covariates else _MODEL
        return {name.rstrip("_"): getattr(self, name) for name in names}

    def save_model(self, path: str | Path) -> None:
        """Writes :meth:`model` as .npz; ``np.load`` reads it back, bit by bit."""
        np.savez(path, **self.model())  # type: ignore[arg-type]

    def close(self) -> None:
        """Lets the library's memory of the run go. Arrays already read stay."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self._run is not None and not self.unchanged:
            for name in (*_MODEL, "slopes", "blocks"):
                getattr(self, name)
        if self._run is not None:
            _ = self.diagnostics
        return {**self.__dict__, "_run": None}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.asarray(self.embedding)
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError("another dtype needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        return (
            f"<unisono.Result: {self.n_cells} cells x {self.n_dims} dimensions, {self.n_levels} "
            f"levels of {', '.join(self.variables)}, {self.n_clusters} clusters, "
            f"{self.n_rounds} rounds: {self.reason}>"
        )
