# SPDX-License-Identifier: BSD-3-Clause
"""Two pictures, with matplotlib where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _labels
from ._columns import no_such

if TYPE_CHECKING:
    from anndata import AnnData
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install matplotlib"
        ) from None
    return pyplot


def plot_convergence(result: Any, ax: Axes | None = None) -> Axes:
    """Draws the objective, and the relative change of the correction, over the rounds.

    Parameters
    ----------
    result
        A :class:`unisono.Result`, what :func:`unisono.run_harmony` returns, or the ``uns`` entry of
        a corrected AnnData.
    ax
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, unisono
    >>> Z = np.random.default_rng(0).normal(size=(300, 5))
    >>> unisono.plot_convergence(unisono.harmonize(Z, ["a", "b"] * 150)).get_xlabel()
    'round'
    """
    result = getattr(result, "run", result)
    if isinstance(result, dict):
        rounds, trace = result.get("rounds", {}), result.get("trace", {})
        change = np.asarray(rounds.get("change", []))
        ends = np.asarray(trace.get("round", [])), np.asarray(trace.get("objective", []))
    else:
        change = np.array([r["change"] for r in result.rounds])
        ends = (
            np.array([o["round"] for o in result.objectives]),
            np.array([o["total"] for o in result.objectives]),
        )
    if not len(change):
        raise ValueError("this run had no rounds, so there is nothing to draw")
    if ax is None:
        ax = _pyplot().subplots()[1]
    last = np.flatnonzero(np.diff(np.append(ends[0], -1)))  # of each round's objectives, the last
    ax.plot(ends[0][last], ends[1][last], "o-", color="tab:blue")
    ax.set_xlabel("round")
    ax.set_ylabel("objective", color="tab:blue")
    other = ax.twinx()
    other.plot(np.arange(1, len(change) + 1), change, "s--", color="tab:orange")
    other.set_ylabel("change of the correction", color="tab:orange")
    other.set_ylim(bottom=0)
    return ax


def plot_before_after(
    adata: AnnData,
    key: str,
    *,
    basis: str = "X_pca",
    adjusted_basis: str = "X_pca_harmony",
    dims: tuple[int, int] = (0, 1),
    max_cells: int = 20000,
) -> Figure:
    """Draws two dimensions of an embedding before and after, coloured by ``adata.obs[key]``.

    Parameters
    ----------
    adata, key
        As in :func:`unisono.pp.harmony_integrate`, after it.
    basis, adjusted_basis
        Entries of ``adata.obsm``, (n_cells, n_dims).
    dims
        The two dimensions, from 0.
    max_cells
        More are thinned out evenly.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import anndata, numpy as np, unisono
    >>> adata = anndata.AnnData(
    ...     np.zeros((60, 1), np.float32),
    ...     obsm={"X_pca": np.random.default_rng(0).normal(size=(60, 5))},
    ... )
    >>> adata.obs["donor"] = ["a", "b"] * 30
    >>> unisono.pp.harmony_integrate(adata, "donor")
    >>> [ax.get_title() for ax in unisono.plot_before_after(adata, "donor").axes]
    ['X_pca', 'X_pca_harmony']
    """
    pyplot = _pyplot()
    if key not in adata.obs:
        raise no_such("obs", "column", key, list(adata.obs.columns))
    variable = _labels.encode(adata.obs[key], key, force=True)
    # An order that does not depend on the file's: else the last batch would cover the others.
    cells = np.random.default_rng(0).permutation(adata.n_obs)[:max_cells]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    colours = pyplot.get_cmap("tab20")
    for ax, name in zip(axes, (basis, adjusted_basis)):
        if name not in adata.obsm:
            raise no_such("obsm", "entry", name, list(adata.obsm.keys()))
        values = np.asarray(adata.obsm[name])[cells][:, list(dims)]
        ax.scatter(
            values[:, 0], values[:, 1], s=4, c=colours(variable.level[cells] % 20), linewidths=0
        )
        ax.set_title(name)
        ax.set_xlabel(f"{name} {dims[0] + 1}")
        ax.set_ylabel(f"{name} {dims[1] + 1}")
    handles = [
        pyplot.Line2D([], [], ls="", marker="o", color=colours(i % 20), label=n)
        for i, n in enumerate(variable.names[:20])
    ]
    figure.legend(handles=handles, title=key, loc="outside right center")
    return figure
