# SPDX-License-Identifier: BSD-3-Clause
"""The examples of the docstrings, and of the package's README."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
import unisono

MODULES = [
    "unisono",
    *(f"unisono.{m.name}" for m in pkgutil.iter_modules(unisono.__path__) if m.name[0] in "_p"),
]
EXAMPLES = {
    test.name: test
    for name in MODULES
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    if test.examples
}


def _needs(text):
    for module in ("anndata", "matplotlib", "pandas"):
        if module in text or (module == "matplotlib" and "plot_" in text):
            pytest.importorskip(module)
    if "plot_" in text:
        import matplotlib

        matplotlib.use("Agg")


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    _needs("".join(example.source for example in EXAMPLES[name].examples))
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(EXAMPLES[name])
    assert result.attempted and not result.failed


@pytest.mark.parametrize(
    "name", [n for n in unisono.__all__ if inspect.isfunction(getattr(unisono, n))]
)
def test_every_function_has_one(name):
    function = getattr(unisono, name)
    assert ">>>" in inspect.getdoc(function)
    assert all(p.annotation is not p.empty for p in inspect.signature(function).parameters.values())


README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.parametrize("number", range(2))
def test_readme(number, tmp_path, monkeypatch, blobs):
    """The examples build on each other; those that speak of an AnnData are given one."""
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    _needs(examples[number])
    if "adata" in examples[number]:
        import anndata

        names["adata"] = anndata.AnnData(np.zeros((1200, 1), "f"), obsm={"X_pca": blobs[0]})
        names["adata"].obs["donor"] = blobs[1].astype(str)
    exec(examples[number], names)
