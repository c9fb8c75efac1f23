# SPDX-License-Identifier: BSD-3-Clause
"""run_harmony: harmonypy's call and harmonypy's attributes, computed by unisono."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ._api import run_on
from ._columns import automatic, numbers_of, seed_of, variables_of
from ._embedding import take
from ._labels import Variable, joined
from ._log import warn
from ._numbers import covariates_of, numbers
from ._options import Settings
from ._result import Result
from ._run import Progress


class Harmony:
    """A run under harmonypy 2's names.

    N cells, d dimensions, K clusters, B batches with cells over all variables.

    Attributes
    ----------
    Z_corr, Z_orig : (N, d)
        The corrected embedding, and the one that was given.
    Z_cos : (N, d)
        The corrected embedding with rows of unit length.
    R : (N, K)
        Soft assignments.
    Y : (d, K)
        Centroids of unit length.
    O, E : (K, B)
        Observed and expected cells of a batch in a cluster.
    lamb : (K, B)
        Ridge penalties of the last correction; 0 where a pair was left out.
    Phi, Phi_moe : (N, B), (N, B + 1)
        Which cell is of which batch, 0 or 1; with a column of ones in front.
    Pr_b, N_b, theta : (B,)
        Share and number of cells, and diversity penalty, per batch.
    sigma : (K,)
        Softness of the clusters.
    K, N, d, B : int
        Sizes.
    objective_harmony, objective_kmeans, objective_kmeans_dist, objective_kmeans_entropy,
    objective_kmeans_cross : list
        The objective before the first round and after every round; the same for every sweep; and
        its three terms.
    kmeans_rounds : list
        Sweeps in each round.
    run : Result
        The run itself.
    """

    def __init__(self, run: Result, Z_orig: np.ndarray, variables: Sequence[Variable]) -> None:
        self.run = run
        self.Z_corr = np.asarray(run)
        self.Z_orig = Z_orig
        self._variables = variables
        self._counts = np.concatenate(
            [np.bincount(v.level[v.level >= 0], minlength=len(v.names)) for v in variables]
        )
        self._used = np.flatnonzero(self._counts)  # harmonypy knows no batch without cells
        self.N, self.d = run.n_cells, run.n_dims
        self.K, self.B = run.n_clusters, len(self._used)
        self.kmeans_rounds = [int(r["sweeps"]) for r in run.rounds]
        self.objective_kmeans = [o["total"] for o in run.objectives]
        self.objective_kmeans_dist = [o["distance"] for o in run.objectives]
        self.objective_kmeans_entropy = [o["entropy"] for o in run.objectives]
        self.objective_kmeans_cross = [o["diversity"] for o in run.objectives]
        self.objective_harmony = self.objective_kmeans[:1] + [r["objective"] for r in run.rounds]

    def result(self) -> np.ndarray:
        """The corrected embedding, (N, d)."""
        return self.Z_corr

    @property
    def R(self) -> np.ndarray:
        return self.run.R

    @property
    def Y(self) -> np.ndarray:
        return self.run.Y.T

    @property
    def O(self) -> np.ndarray:
        return self.run.O[self._used].T

    @property
    def E(self) -> np.ndarray:
        return self.run.E[self._used].T

    @property
    def lamb(self) -> np.ndarray:
        return self.run.lambda_[self._used].T

    @property
    def theta(self) -> np.ndarray:
        return self.run.theta[self._used]

    @property
    def sigma(self) -> np.ndarray:
        return self.run.sigma

    @property
    def N_b(self) -> np.ndarray:
        return self._counts[self._used]

    @property
    def Pr_b(self) -> np.ndarray:
        return self.N_b / self.N

    @cached_property
    def Z_cos(self) -> np.ndarray:
        length = np.linalg.norm(self.Z_corr, axis=1, keepdims=True)
        return self.Z_corr / np.where(length > 0, length, 1)

    @property
    def Phi(self) -> np.ndarray:
        return self.Phi_moe[:, 1:]

    @cached_property
    def Phi_moe(self) -> np.ndarray:
        phi = np.zeros((self.N, self.B + 1), np.float32)
        phi[:, 0] = 1
        first = 0
        for variable in self._variables:
            column = np.searchsorted(self._used, first + variable.level) + 1
            has = np.flatnonzero(variable.level >= 0)
            phi[has, column[has]] = 1
            first += len(variable.names)
        return phi


def _per_variable(
    values: Any, variables: Sequence[Variable], name: str, intercept: bool = False
) -> Any:
    """The library takes one value or one per variable; harmonypy also one per batch."""
    if values is None or isinstance(values, str) or np.ndim(values) == 0:
        return values
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    sizes = [
        int(np.count_nonzero(np.bincount(v.level[v.level >= 0], minlength=1))) for v in variables
    ]
    if len(array) == len(variables):
        return array
    if intercept and len(array) == sum(sizes) + 1:
        if array[0] != 0:
            raise NotImplementedError(
                f"{name}[0] is {array[0]:g}; a penalty of the intercept is not in this package, "
                "it must be 0"
            )
        array = array[1:]
    if len(array) != sum(sizes):
        return array  # the library says how many it may be
    parts = np.split(array, np.cumsum(sizes)[:-1])
    if any((part != part[0]).any() for part in parts):
        raise NotImplementedError(
            f"{name} with different values for the batches of one variable is not in this package; "
            "give one per variable"
        )
    return [part[0] for part in parts]


def _numeric_columns(data: Any) -> Any:
    if not hasattr(data, "select_dtypes"):
        return data
    kept = data.select_dtypes(include="number")
    if kept.shape[1] < data.shape[1]:
        dropped = [str(name) for name in data.columns if name not in kept.columns]
        warn(f"columns of data_mat that hold no numbers are left out: {', '.join(dropped)}")
    return kept


def _record_every_sweep(settings: Settings) -> None:
    """harmonypy has an objective for every sweep. The library leaves out those that cannot end a
    round; a window in which they could, and a tolerance that never does, are the same run with
    them.
    """
    if settings.c.sweeps <= settings.c.window + 1:
        settings.c.window, settings.c.sweep_tol = 1, -1.0


def run_harmony(
    data_mat: Any,
    meta_data: Any,
    vars_use: str | Sequence[str],
    theta: Any = None,
    lamb: Any = None,
    sigma: Any = None,
    nclust: int | None = None,
    tau: Any = None,
    block_size: float | None = None,
    max_iter_harmony: int | None = None,
    max_iter_kmeans: int | None = None,
    epsilon_cluster: float | None = None,
    epsilon_harmony: float | None = None,
    alpha: float | None = None,
    batch_prop_cutoff: float | None = None,
    verbose: bool = True,
    random_state: Any = None,
    ncores: int | None = 0,
    *,
    combine: bool = False,
    flavor: str | None = None,
    compat: str | None = None,
    update: str | None = None,
    overcorrect: float | None = None,
    weights: Any = None,
    covariates: Any = None,
    dtype: Any = np.float32,
    progress: bool | Callable[[Progress], Any] | None = None,
) -> Harmony:
    """Harmony under harmonypy 2's signature: change the import, keep the code.

    None is the library's default, which for every parameter but ``epsilon_harmony`` is harmonypy's.
    Without ``epsilon_harmony`` a run ends when the correction has settled; with it, when the
    objective changes by less than this share, as in harmonypy.

    Parameters
    ----------
    data_mat : (N, d)
        The embedding, cells as rows; it is never turned around.
    meta_data
        A DataFrame, or a dict of columns, with a row per cell. If it and ``data_mat`` name their
        cells they are matched by name.
    vars_use
        Column(s) of ``meta_data``.
    theta, tau
        Diversity penalty, and what spares small batches from it: one value, or one per variable.
    lamb
        Ridge penalty: one value, or one per variable. None or -1: automatic, from ``alpha``.
    sigma
        Softness of the clusters: one value, or one per cluster.
    nclust
        Number of clusters.
    block_size
        Share of the cells that is updated at once.
    max_iter_harmony, max_iter_kmeans
        Rounds, and sweeps in a round, at most.
    epsilon_cluster, epsilon_harmony
        Relative changes of the objective that end a round's sweeps, and the run.
    batch_prop_cutoff
        A batch with at most this share of its cells in a cluster is left alone there.
    verbose
        Messages through the logger "unisono", which shows none unless the application asks for
        them.
    random_state
        A seed, or a generator that one is drawn from.
    ncores
        Threads; 0: the CPUs that this process may use. The result is the same for any number.
    combine, flavor, compat, update, overcorrect, dtype, progress
        As in :func:`unisono.harmonize`; harmonypy has none of them.
    weights, covariates
        As in :func:`unisono.harmonize`, or columns of ``meta_data``.

    Returns
    -------
    Harmony

    Examples
    --------
    >>> import numpy as np, unisono as hm
    >>> Z = np.random.default_rng(0).normal(size=(120, 5))
    >>> hm.run_harmony(Z, {"donor": ["a", "b"] * 60}, "donor").Z_corr.shape
    (120, 5)
    """
    embedding = take(_numeric_columns(data_mat))
    variables = variables_of(meta_data, vars_use, "meta_data", False)
    # What the rows of O, E, ... are of.
    rows = [joined(variables)] if combine and len(variables) > 1 else variables
    weights = numbers_of(meta_data, weights, "meta_data")
    settings = Settings(
        theta=_per_variable(theta, rows, "theta"),
        lambda_=None if automatic(lamb) else _per_variable(lamb, rows, "lamb", True),
        sigma=sigma,
        clusters=nclust,
        tau=tau,
        block_size=block_size,
        max_rounds=max_iter_harmony,
        sweeps=max_iter_kmeans,
        sweep_tol=epsilon_cluster,
        tol=epsilon_harmony,
        stop=None if epsilon_harmony is None else "objective",
        alpha=alpha,
        cutoff=batch_prop_cutoff,
        seed=seed_of(random_state),
        threads=ncores or None,
        terms=True,
        flavor=flavor,
        compat=compat,
        update=update,
        overcorrect=overcorrect,
        combine=combine,
    )
    _record_every_sweep(settings)
    result = run_on(
        embedding,
        variables,
        settings,
        dtype,
        progress if progress is not None else _logged(verbose),
        None if weights is None else numbers(weights, "weights"),
        covariates_of(numbers_of(meta_data, covariates, "meta_data")),
    )
    return Harmony(result, embedding.values, rows)


def _logged(verbose: bool) -> Callable[[Progress], Any] | None:
    from ._progress import log_round

    return log_round if verbose else None
