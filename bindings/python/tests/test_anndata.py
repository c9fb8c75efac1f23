# SPDX-License-Identifier: BSD-3-Clause
"""pp.harmony_integrate on AnnData: in memory, as a view, backed, and in a scanpy pipeline."""

import inspect

import numpy as np
import pytest
import unisono

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

SCANPY = (
    "adata", "key", "basis", "adjusted_basis", "dtype", "flavor", "n_clusters",
    "max_iter_harmony", "max_iter_clustering",
    "tol_harmony", "tol_clustering", "sigma", "theta", "tau", "ridge_lambda", "alpha",
    "batch_prune_threshold",
    "correction_method", "block_proportion", "random_state", "rng", "colsum_algo", "verbose",
)  # fmt: skip


@pytest.fixture
def adata(blobs):
    obs = pd.DataFrame(
        {"Channel": [f"d{b}" for b in blobs[1]], "half": np.arange(1200) % 2},
        [f"c{i}" for i in range(1200)],
    )
    obs["Channel"] = obs["Channel"].astype("category")
    return anndata.AnnData(np.zeros((1200, 2), "f"), obs=obs, obsm={"X_pca": blobs[0].copy()})


def test_signature():
    parameters = inspect.signature(unisono.pp.harmony_integrate).parameters
    assert set(SCANPY) <= set(parameters)
    assert all(p.kind == p.KEYWORD_ONLY for p in list(parameters.values())[2:-1])


def test_p38_p93_what_is_written(adata, blobs):
    before = adata.obsm["X_pca"].tobytes()
    assert unisono.pp.harmony_integrate(adata, "Channel") is None
    corrected = adata.obsm["X_pca_harmony"]
    assert corrected.shape == adata.obsm["X_pca"].shape and corrected.dtype == np.float32
    assert adata.obsm["X_pca"].tobytes() == before
    assert corrected.tobytes() == unisono.harmonize(blobs[0], blobs[1]).embedding.tobytes()
    record = adata.uns["X_pca_harmony"]
    assert (
        record["version"] == unisono.__version__
        and record["batch"] == "Channel"
        and record["seed"] == 0
    )
    assert record["params"]["theta"] == "2" and record["params"]["max-rounds"] == "10"
    assert len(record["rounds"]["change"]) == record["n_rounds"] and record["reason"] == "converged"


def test_p73_p93_written_and_read_again(adata, tmp_path):
    unisono.pp.harmony_integrate(adata, "Channel", adjusted_basis="X_other", terms=True)
    adata.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert again.obsm["X_other"].tobytes() == adata.obsm["X_other"].tobytes()
    assert again.uns["X_other"]["params"] == adata.uns["X_other"]["params"]
    assert {"distance", "entropy", "diversity", "objective"} <= set(again.uns["X_other"]["trace"])


def test_p46_keys(adata):
    results = []
    for key in ("Channel", ["Channel"], ("Channel",)):
        unisono.pp.harmony_integrate(adata, key)
        results.append(adata.obsm["X_pca_harmony"].tobytes())
    assert len(set(results)) == 1
    unisono.pp.harmony_integrate(adata, ["Channel", "half"], combine=True)
    assert adata.uns["X_pca_harmony"]["batch"] == "Channel,half"
    assert adata.obsm["X_pca_harmony"].tobytes() != results[0]


def test_parameters_arrive(adata):
    unisono.pp.harmony_integrate(
        adata, "Channel", n_clusters=5, max_iter_harmony=3, max_iter_clustering=6,
        tol_harmony=1e-4, tol_clustering=1e-5,
        sigma=0.2, theta=1, tau=3, alpha=0.3, batch_prune_threshold=0.01, block_proportion=0.1,
        random_state=4,
        threads=1, lambda_=2,
    )  # fmt: skip
    params = adata.uns["X_pca_harmony"]["params"]
    expected = {
        "clusters": "5",
        "max-rounds": "3",
        "sweeps": "6",
        "tol": "0.0001",
        "sweep-tol": "1e-05",
        "sigma": "0.2",
    }
    expected |= {
        "theta": "1",
        "tau": "3",
        "alpha": "0.3",
        "cutoff": "0.01",
        "block-size": "0.1",
        "seed": "4",
    }
    expected |= {"threads": "1", "lambda": "2", "stop": "objective"}
    assert {name: params[name] for name in expected} == expected
    unisono.pp.harmony_integrate(
        adata, "Channel", batch_prune_threshold=None, rng=np.random.default_rng(0)
    )
    assert adata.uns["X_pca_harmony"]["params"]["cutoff"] == "0"
    unisono.pp.harmony_integrate(adata, "Channel", dtype=np.float64)
    assert adata.obsm["X_pca_harmony"].dtype == np.float64


def test_what_cannot_be_honoured_is_said(adata):
    with pytest.raises(ValueError, match="harmony3"):
        unisono.pp.harmony_integrate(adata, "Channel", flavor="harmony3")
    for name, value in {
        "ridge_lambda": 1.0,
        "correction_method": "fast",
        "colsum_algo": "gemm",
    }.items():
        with pytest.warns(unisono.UnisonoWarning, match=name):
            unisono.pp.harmony_integrate(adata, "Channel", **{name: value})
    with pytest.raises(TypeError, match="two names"):
        unisono.pp.harmony_integrate(adata, "Channel", random_state=1, rng=2)
    with pytest.raises(TypeError, match="clusters is given twice"):
        unisono.pp.harmony_integrate(adata, "Channel", n_clusters=1, clusters=2)
    with pytest.raises(TypeError, match="no option 'nclusters'"):
        unisono.pp.harmony_integrate(adata, "Channel", nclusters=1)
    with pytest.warns(unisono.UnisonoWarning, match="alpha is ignored"):
        unisono.pp.harmony_integrate(adata, "Channel", flavor="harmony1", alpha=0.3)


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        ({"key": "Chanel"}, ValueError, 'obs has no column "Chanel"; nearest: Channel'),
        (
            {"key": "Channel", "basis": "X_pcs"},
            ValueError,
            'obsm has no entry "X_pcs"; nearest: X_pca',
        ),
        ({"key": []}, ValueError, "no batch variable"),
        ({"key": "Channel", "theta": -1}, ValueError, "theta"),
        ({"key": "Channel", "adjusted_basis": ""}, TypeError, "adjusted_basis"),
    ],
)
def test_p35_p53_errors_leave_everything_as_it_was(adata, call, error, word):
    with pytest.raises(error, match=word):
        unisono.pp.harmony_integrate(adata, **call)
    assert list(adata.obsm) == ["X_pca"] and not adata.uns


def test_no_anndata(Z):
    with pytest.raises(TypeError, match="AnnData"):
        unisono.pp.harmony_integrate(Z, "Channel")


def test_missing_labels(adata):
    adata.obs.loc["c4", "Channel"] = None
    with pytest.raises(ValueError, match='"Channel" has 1 missing label'):
        unisono.pp.harmony_integrate(adata, "Channel")
    unisono.pp.harmony_integrate(adata, "Channel", missing="skip")
    assert adata.uns["X_pca_harmony"]["n_cells_skipped"] == 1
    assert np.array_equal(adata.obsm["X_pca_harmony"][4], adata.obsm["X_pca"][4])


def test_bases_of_other_kinds(adata, blobs):
    sparse = pytest.importorskip("scipy.sparse")
    adata.obsm["X_sparse"] = sparse.csr_matrix(blobs[0])
    adata.obsm["X_frame"] = pd.DataFrame(blobs[0], adata.obs_names).rename(columns=str)
    unisono.pp.harmony_integrate(adata, "Channel")
    for basis in ("X_sparse", "X_frame"):
        unisono.pp.harmony_integrate(adata, "Channel", basis=basis, adjusted_basis="X_b")
        assert np.asarray(adata.obsm["X_b"]).tobytes() == adata.obsm["X_pca_harmony"].tobytes()


def test_views(adata):
    part = adata[::2]
    with pytest.warns(Warning):  # anndata says that the view becomes a copy
        unisono.pp.harmony_integrate(part, "Channel")
    assert part.obsm["X_pca_harmony"].shape == (600, 8) and "X_pca_harmony" not in adata.obsm


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_p98_backed(adata, tmp_path, mode):
    path = tmp_path / "a.h5ad"
    adata.write_h5ad(path)
    backed = anndata.read_h5ad(path, backed=mode)
    unisono.pp.harmony_integrate(backed, "Channel")
    unisono.pp.harmony_integrate(adata, "Channel")
    assert backed.isbacked
    assert backed.obsm["X_pca_harmony"].tobytes() == adata.obsm["X_pca_harmony"].tobytes()
    with pytest.raises(ValueError, match="view of a backed"):
        unisono.pp.harmony_integrate(
            backed[:100], "Channel", progress=lambda p: pytest.fail("it ran")
        )
    backed.file.close()


def test_plot_before_after(adata, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    unisono.pp.harmony_integrate(adata, "Channel")
    figure = unisono.plot_before_after(adata, "Channel")
    assert len(figure.axes) == 2 and [t.get_text() for t in figure.legends[0].get_texts()] == [
        "d0",
        "d1",
        "d2",
    ]
    figure.savefig(tmp_path / "a.png")
    assert unisono.plot_convergence(adata.uns["X_pca_harmony"]).get_xlabel() == "round"
    with pytest.raises(ValueError, match='"Chanel"'):
        unisono.plot_before_after(adata, "Chanel")
    pyplot.close("all")


def test_harmonypy_s_keywords(adata):
    """As scanpy.external's function takes them."""
    words = {"nclust": 7, "lamb": -1, "max_iter_kmeans": 3, "epsilon_cluster": 1e-4, "ncores": 0}
    unisono.pp.harmony_integrate(
        adata, "Channel", epsilon_harmony=1e-3, batch_prop_cutoff=0.01, block_size=0.1, **words
    )
    params = adata.uns["X_pca_harmony"]["params"]
    expected = {"clusters": "7", "lambda": "auto", "sweeps": "3", "sweep-tol": "0.0001"}
    expected |= {"tol": "0.001", "stop": "objective", "cutoff": "0.01", "threads": "auto"}
    assert {name: params[name] for name in expected} == expected
    with pytest.raises(TypeError, match="clusters is given twice: as nclust"):
        unisono.pp.harmony_integrate(adata, "Channel", n_clusters=1, nclust=2)


def test_p38_scanpy_pipeline_on_its_own_data():
    sc = pytest.importorskip("scanpy")
    adata = sc.datasets.pbmc68k_reduced()
    unisono.pp.harmony_integrate(adata, "phase")
    sc.pp.neighbors(adata, use_rep="X_pca_harmony")
    sc.tl.umap(adata, maxiter=20)
    assert np.isfinite(adata.obsm["X_umap"]).all()
    pytest.importorskip("igraph")
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2)
    assert adata.obs["leiden"].nunique() > 3


def test_p38_scanpy_pipeline(adata):
    sc = pytest.importorskip("scanpy")
    unisono.pp.harmony_integrate(adata, "Channel")
    sc.pp.neighbors(adata, use_rep="X_pca_harmony")
    sc.tl.umap(adata, maxiter=20)
    assert np.isfinite(adata.obsm["X_umap"]).all()
    assert adata.uns["neighbors"]["params"]["use_rep"] == "X_pca_harmony"


def test_scanpy_parameters():
    """Every parameter that the installed scanpy's function has is one of ours."""
    sc = pytest.importorskip("scanpy")
    function = getattr(sc.pp, "harmony_integrate", None) or sc.external.pp.harmony_integrate
    theirs = [
        n for n, p in inspect.signature(function).parameters.items() if p.kind != p.VAR_KEYWORD
    ]
    assert set(theirs) <= set(inspect.signature(unisono.pp.harmony_integrate).parameters)
