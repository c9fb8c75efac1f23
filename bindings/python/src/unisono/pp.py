# SPDX-License-Identifier: BSD-3-Clause
"""Preprocessing of AnnData, as scanpy calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _c
from ._api import run_on, run_within
from ._columns import (
    automatic,
    column_of,
    keys_of,
    no_such,
    numbers_of,
    seed_of,
    variables_of,
)
from ._embedding import Embedding, take
from ._labels import encode
from ._log import warn
from ._numbers import covariates_of, numbers
from ._options import Settings
from ._result import Result
from ._run import Progress
from ._within import Results

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["harmony_integrate"]


class _Default:
    def __repr__(self) -> str:
        return "<library default>"


_DEFAULT: Any = _Default()

# scanpy.external's function of this name hands its keywords to harmonypy: those work here too.
_HARMONYPY = {
    "nclust": "clusters",
    "lamb": "lambda_",
    "max_iter_kmeans": "sweeps",
    "epsilon_cluster": "sweep_tol",
    "epsilon_harmony": "tol",
    "batch_prop_cutoff": "cutoff",
    "ncores": "threads",
}


def harmony_integrate(
    adata: AnnData,
    key: str | Sequence[str],
    *,
    basis: str = "X_pca",
    adjusted_basis: str = "X_pca_harmony",
    dtype: Any = np.float32,
    flavor: str = "harmony2",
    n_clusters: int | None = None,
    max_iter_harmony: int | None = None,
    max_iter_clustering: int | None = None,
    tol_harmony: float | None = None,
    tol_clustering: float | None = None,
    sigma: float | Sequence[float] | None = None,
    theta: float | Sequence[float] | None = None,
    tau: float | Sequence[float] | None = None,
    ridge_lambda: float | None = None,
    alpha: float | None = None,
    batch_prune_threshold: float | None = _DEFAULT,
    correction_method: str | None = None,
    colsum_algo: str | None = None,
    block_proportion: float | None = None,
    random_state: Any = None,
    rng: Any = None,
    verbose: bool = False,
    combine: bool = False,
    weights: Any = None,
    covariates: Any = None,
    within: Any = None,
    progress: bool | Callable[[Progress], Any] | None = None,
    **options: Any,
) -> None:
    """Corrects an embedding in ``adata.obsm``: the function of this name in scanpy and
    rapids-singlecell.

    Parameters not given have the library's defaults, which are those of the R package harmony 2,
    except for the stopping rule across rounds: a run ends when the correction has settled. A
    ``tol_harmony`` selects the R package's rule, which looks at the objective, with that tolerance.

    Parameters
    ----------
    adata
        The annotated data, in memory or backed.
    key
        Column(s) of ``adata.obs``. Several are several batch variables, each with its own theta,
        tau and penalty.
    basis, adjusted_basis
        Entries of ``adata.obsm``: what is corrected, (n_cells, n_dims), and where the result goes.
    dtype
        Of the result, default float32. The computation is the same.
    flavor
        ``"harmony2"``, or ``"harmony1"``: the method of 2019, with its penalty and defaults.
    n_clusters
        Default ``n_cells / 30``, at least 1 and at most 100.
    max_iter_harmony, max_iter_clustering
        Rounds, and sweeps in a round, at most.
    tol_harmony, tol_clustering
        Relative changes of the objective that end the run, and a round's sweeps.
    sigma
        Softness of the clustering: one value, or one per cluster.
    theta, tau
        Strength of the mixing, and what spares small batches from it: one value, or one per key.
    ridge_lambda
        The fixed penalty of ``flavor="harmony1"``, default 1, as in scanpy; in ``"harmony2"`` one
        is ``lambda_``.
    alpha
        Of the automatic penalty ``alpha * E``, which ``"harmony1"`` has not.
    batch_prune_threshold
        A batch with at most this share of its cells in a cluster is left alone there. None: 0.
    correction_method, colsum_algo
        Other programs' ways to the same result; there is one here, and a warning says so.
    block_proportion
        Share of the cells that is updated at once.
    random_state, rng
        A seed, or a generator that one is drawn from.
    verbose
        A message per round through ``logging``.
    combine
        Take the combinations of several keys' levels as one variable.
    weights, covariates
        What each cell counts, and numbers to regress out: columns of ``adata.obs``, or as
        :func:`unisono.harmonize` takes them.
    within
        A column of ``adata.obs``, or labels, whose levels are integrated apart.
    progress, **options
        As in :func:`unisono.harmonize`. Keywords of harmonypy, which scanpy.external's function
        hands on to it, are understood too (``nclust``, ``lamb``, ``epsilon_harmony``, ...).

    Returns
    -------
    None
        ``adata.obsm[adjusted_basis]`` is the corrected embedding, (n_cells, n_dims), and
        ``adata.uns[adjusted_basis]`` says how it was made: parameters, version, seed, rounds,
        objectives. If anything fails, ``adata`` is as it was.

    Examples
    --------
    >>> import anndata, numpy as np, unisono
    >>> adata = anndata.AnnData(np.zeros((60, 1), np.float32))
    >>> adata.obsm["X_pca"] = np.random.default_rng(0).normal(size=(60, 5))
    >>> adata.obs["donor"] = ["a", "b"] * 30
    >>> unisono.pp.harmony_integrate(adata, "donor")
    >>> adata.obsm["X_pca_harmony"].shape
    (60, 5)
    """
    if alpha is not None and flavor == "harmony1" and covariates is None:
        warn('alpha is ignored with flavor="harmony1", whose penalty is ridge_lambda')
    _say_what_is_ignored(flavor, ridge_lambda, correction_method, colsum_algo)
    if rng is not None and random_state is not None:
        raise TypeError("random_state and rng are two names of the same thing; give one")
    own = {
        "clusters": n_clusters,
        "max_rounds": max_iter_harmony,
        "sweeps": max_iter_clustering,
        "tol": tol_harmony,
        "stop": None if tol_harmony is None else "objective",
        "sweep_tol": tol_clustering,
        "sigma": sigma,
        "theta": theta,
        "tau": tau,
        "alpha": alpha,
        "cutoff": None if batch_prune_threshold is _DEFAULT else batch_prune_threshold or 0,
        "block_size": block_proportion,
        "seed": seed_of(rng if rng is not None else random_state),
        "flavor": flavor,
        "combine": combine or None,
        "lambda_": ridge_lambda if flavor == "harmony1" else None,
    }
    settings = Settings(**_united(own, options))
    _check_writable(adata, adjusted_basis)
    if basis not in adata.obsm:
        raise no_such("obsm", "entry", basis, list(adata.obsm.keys()))
    variables = variables_of(adata.obs, key, "obs", settings.forced)
    columns = {
        "weights": _weights_of(adata, weights),
        "covariates": covariates_of(numbers_of(adata.obs, covariates, "obs")),
    }
    embedding = take(adata.obsm[basis])
    progress = progress if progress is not None else verbose
    record: dict[str, Any] = {}
    if weights is not None:
        record["weights"] = columns["weights"].name
    if columns["covariates"]:
        record["regress"] = ",".join(x.name for x in columns["covariates"])
    if within is None:
        result = run_on(embedding, variables, settings, dtype, progress, **columns)
        record |= _record([result], result, settings, basis, keys_of(key))
        corrected = Embedding(np.asarray(result.embedding))
        record["diagnostics"] = result.diagnose_of(embedding, corrected).record()
    else:
        name = within if isinstance(within, str) else None
        apart = within if name is None else column_of(adata.obs, name, "obs")
        by = encode(apart, name, settings.forced)
        result = run_within(
            by, embedding, variables, settings, dtype, progress, keep=False, **columns
        )
        record |= _record_within(result, settings, basis, keys_of(key))
    with result:
        adata.obsm[adjusted_basis] = result.embedding
        adata.uns[adjusted_basis] = record


def _weights_of(adata: Any, weights: Any) -> Any:
    weights = numbers_of(adata.obs, weights, "obs")
    return None if weights is None else numbers(weights, "weights")


def _united(own: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """This function's parameters under the library's names, with options given by those names."""
    given = {name: value for name, value in own.items() if value is not None}
    for word, value in others.items():
        name = _HARMONYPY.get(word, word)
        if name in given and name != "stop":
            raise TypeError(
                f"{name} is given twice: as {word}, and as a parameter of this function"
            )
        if word == "epsilon_harmony" and value is not None:
            given.setdefault("stop", "objective")
        if (word == "lamb" and automatic(value)) or (word == "ncores" and not value):
            value = None
        given[name] = value
    return given


def _say_what_is_ignored(
    flavor: str, ridge_lambda: Any, correction_method: Any, colsum_algo: Any
) -> None:
    if ridge_lambda is not None and flavor != "harmony1":
        warn(
            f'ridge_lambda is ignored with flavor="{flavor}"; '
            "use alpha for the automatic penalty, lambda_ for a fixed one"
        )
    for name, value in (("correction_method", correction_method), ("colsum_algo", colsum_algo)):
        if value is not None:
            warn(f"{name} is ignored: there is one way to compute this here, with the same result")


def _check_writable(adata: Any, key: str) -> None:
    """What would fail at the end of a run must fail before it."""
    if not (hasattr(adata, "obsm") and hasattr(adata, "obs")):
        raise TypeError(f"adata is a {type(adata).__name__}; it must be an AnnData")
    if not isinstance(key, str) or not key:
        raise TypeError(f"adjusted_basis is {key!r}; it must be a name in obsm")
    if getattr(adata, "is_view", False) and getattr(adata, "isbacked", False):
        raise ValueError(
            "adata is a view of a backed AnnData, which cannot be written to; "
            "call its to_memory() first"
        )


def _record(
    results: Sequence[Result | None],
    whole: Result | Results,
    settings: Settings,
    basis: str,
    keys: list[Any],
) -> dict[str, Any]:
    """The entries that the program ``unisono integrate`` writes to uns. None: a level without run."""
    runs = [result for result in results if result is not None]
    parameters = settings.as_dict()
    record: dict[str, Any] = {
        "method": parameters["flavor"],
        "program": "unisono",
        "version": _c.text(_c.library.uni_version()),
        "batch": ",".join(map(str, keys)),
        "basis": basis,
        "backend": max(runs, key=lambda r: r.bytes).backend if runs else "none",
        "reason": whole.reason,
        "threads": max((r.threads for r in runs), default=0),
        "seed": int(settings.c.seed),
        "n_clusters": sum(r.n_clusters for r in runs if r.n_rounds or r is whole),
        "n_rounds": sum(r.n_rounds for r in runs),
        "n_cells_skipped": whole.n_skipped,
        "params": {name.rstrip("_").replace("_", "-"): value for name, value in parameters.items()},
    }
    if whole.warnings:
        record["warnings"] = "\n".join(whole.warnings)
    rounds = [(i + 1, r) for i, result in enumerate(results) if result for r in result.rounds]
    if rounds:
        names = (
            "sweeps",
            "objective",
            "objective_change",
            "change",
            "pruned_pairs",
            "skipped_clusters",
        )
        record["rounds"] = {name: np.array([r[name] for _, r in rounds]) for name in names}
    sweeps = [(i + 1, o) for i, result in enumerate(results) if result for o in result.objectives]
    if sweeps:
        terms = ("diversity", *(("distance", "entropy") if settings.c.terms else ()))
        record["trace"] = {
            name: np.array([o[name] for _, o in sweeps]) for name in ("round", "sweep", *terms)
        }
        record["trace"]["objective"] = np.array([o["total"] for _, o in sweeps])
    if isinstance(whole, Results) and rounds:
        record["rounds"]["run"] = np.array([i for i, _ in rounds])
        record["trace"]["run"] = np.array([i for i, _ in sweeps])
    return record


def _record_within(
    results: Results, settings: Settings, basis: str, keys: list[Any]
) -> dict[str, Any]:
    runs = [results.runs.get(level) for level in results.cells]
    record = _record(runs, results, settings, basis, keys)
    record["within"] = results.within
    record["runs"] = {
        "level": "\n".join(results.cells),
        "cells": np.array(list(results.cells.values()), np.int64),
        "n_clusters": np.array([r.n_clusters if r else 0 for r in runs], np.int64),
        "reason": "\n".join(r.reason if r else "fewer than two cells" for r in runs),
    }
    return record
