# SPDX-License-Identifier: BSD-3-Clause
"""Preprocessing of AnnData, as scanpy calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._api import run_on
from ._columns import automatic, keys_of, no_such, seed_of, variables_of
from ._embedding import take
from ._log import warn
from ._options import Settings
from ._result import Result
from ._run import Progress

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
        ``"harmony2"``; this package has no ``"harmony1"``.
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
        Of ``flavor="harmony1"`` only, as in scanpy; a fixed penalty is ``lambda_``.
    alpha
        Of the automatic penalty ``alpha * E``.
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
    _refuse_other_methods(flavor, ridge_lambda, correction_method, colsum_algo)
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
    }
    settings = Settings(**_united(own, options))
    _check_writable(adata, adjusted_basis)
    if basis not in adata.obsm:
        raise no_such("obsm", "entry", basis, list(adata.obsm.keys()))
    variables = variables_of(adata.obs, key, "obs", settings.forced, combine)
    embedding = take(adata.obsm[basis])
    result = run_on(
        embedding, variables, settings, dtype, progress if progress is not None else verbose
    )
    with result:
        record = _record(result, settings, basis, keys_of(key))
        adata.obsm[adjusted_basis] = result.embedding
        adata.uns[adjusted_basis] = record


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


def _refuse_other_methods(
    flavor: str, ridge_lambda: Any, correction_method: Any, colsum_algo: Any
) -> None:
    if flavor == "harmony1":
        raise NotImplementedError(
            'flavor="harmony1" (the method of 2019) is not in this package; use "harmony2"'
        )
    if flavor != "harmony2":
        raise ValueError(f'flavor is {flavor!r}; it must be "harmony2"')
    if ridge_lambda is not None:
        warn(
            'ridge_lambda is ignored with flavor="harmony2"; '
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


def _record(result: Result, settings: Settings, basis: str, keys: list[Any]) -> dict[str, Any]:
    """The entries that the program ``unisono integrate`` writes to uns."""
    record: dict[str, Any] = {
        "method": "harmony2",
        "program": "unisono",
        "version": result.version,
        "batch": ",".join(map(str, keys)),
        "basis": basis,
        "backend": result.backend,
        "reason": result.reason,
        "threads": result.threads,
        "seed": int(settings.c.seed),
        "n_clusters": result.n_clusters,
        "n_rounds": result.n_rounds,
        "n_cells_skipped": result.n_skipped,
        "params": {
            name.rstrip("_").replace("_", "-"): value for name, value in result.parameters.items()
        },
    }
    if result.warnings:
        record["warnings"] = "\n".join(result.warnings)
    if result.rounds:
        names = (
            "sweeps",
            "objective",
            "objective_change",
            "change",
            "pruned_pairs",
            "skipped_clusters",
        )
        record["rounds"] = {name: np.array([r[name] for r in result.rounds]) for name in names}
    if result.objectives:
        terms = ("distance", "entropy", "diversity") if settings.c.terms else ()
        record["trace"] = {
            name: np.array([o[name] for o in result.objectives])
            for name in ("round", "sweep", *terms)
        }
        record["trace"]["objective"] = np.array([o["total"] for o in result.objectives])
    return record
