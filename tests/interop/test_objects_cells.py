"""AnnData in place: the conventions on a stand-in, and with the real packages where they are
installed.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.neighbors import kneighbors_graph

import eigenprobe as ep
from eigenprobe.errors import InputError
from tests.playground import clusters


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    return clusters(np.random.default_rng(0))


def test_coordinates_and_facts_are_added(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x, _ = rows
    adata = SimpleNamespace(X=csr_matrix(x), obsm={"X_pca": x[:, :8]}, uns={})
    model = ep.interop.eigenmaps(adata, n_comps=3)
    assert np.allclose(
        model.transform(x[:5, :8]), adata.obsm["X_eigenprobe"][:5]
    )  # kept: new cells are mapped by it
    expected = ep.OptimalApproximationEigenmaps(3, n_neighbors=15, random_state=0).fit(x[:, :8])
    assert np.allclose(adata.obsm["X_eigenprobe"], expected.embedding_)
    assert np.allclose(adata.uns["eigenprobe"]["eigenvalues"], expected.eigenvalues_)
    params = {
        "use_rep": "X_pca",
        "n_comps": 3,
        "random_state": 0,
        "n_neighbors": 15,
    }  # scanpy's number of neighbours
    assert adata.uns["eigenprobe"]["params"] == params
    ep.interop.eigenmaps(adata, use_rep="X", key_added="X_all", n_components=2, n_neighbors=20)
    whole = ep.OptimalApproximationEigenmaps(2, random_state=0, n_neighbors=20).fit(x)
    assert (
        np.allclose(adata.obsm["X_all"], whole.embedding_)
        and adata.uns["all"]["params"]["n_neighbors"] == 20
    )


def test_neighbours_of_scanpy_are_the_graph(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x, _ = rows
    rng = np.random.default_rng(1)
    far = np.linalg.norm(x[:, None] - x[None], axis=2)
    order = np.argsort(far, axis=1)[:, 1:16]
    n, k = order.shape
    distances = csr_matrix(
        (np.take_along_axis(far, order, 1).ravel(), (np.repeat(np.arange(n), k), order.ravel())),
        (n, n),
    )
    facts = {"neighbors": {"distances_key": "distances", "params": {"metric": "euclidean"}}}
    noise = rng.normal(
        size=(n, 5)
    )  # of a representation that knows nothing: the graph is that of obsp
    adata = SimpleNamespace(X=noise, obsm={}, uns=facts, obsp={"distances": distances})
    ep.interop.eigenmaps(adata, neighbors_key="neighbors", n_components=3)
    indices = np.sort(order, 1), np.take_along_axis(far, np.sort(order, 1), 1)
    model = ep.OptimalApproximationEigenmaps(3, random_state=0, metric="euclidean", n_neighbors=15)
    expected = model.fit(noise, neighbors=indices)
    np.testing.assert_allclose(
        np.abs(adata.obsm["X_eigenprobe"]), np.abs(expected.embedding_), atol=1e-4
    )
    assert adata.uns["eigenprobe"]["params"]["neighbors_key"] == "neighbors"
    with pytest.raises(InputError, match=r"key of adata.uns \(neighbors.*got 'other'"):
        ep.interop.eigenmaps(adata, neighbors_key="other")
    adata.obsp.clear()
    with pytest.raises(InputError, match=r"adata\.obsp has no 'distances'"):
        ep.interop.eigenmaps(adata, neighbors_key="neighbors")


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning:")
def test_a_part_of_the_cells_is_searched_again(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x = rows[0]
    distances = kneighbors_graph(x, 15, mode="distance")[:100][:, :100]  # as adata[:100] has them
    params = {"metric": "euclidean", "n_neighbors": 16}
    adata = SimpleNamespace(
        X=x[:100], obsm={}, uns={"neighbors": {"params": params}}, obsp={"distances": distances}
    )
    with pytest.warns(
        ep.EigenprobeWarning,
        match="neighbours of some cells, a part of all: they are searched again",
    ):
        model = ep.interop.eigenmaps(adata, 3, neighbors_key="neighbors")
    expected = ep.OptimalApproximationEigenmaps(
        3, random_state=0, metric="euclidean", n_neighbors=15
    ).fit(x[:100])
    np.testing.assert_allclose(model.embedding_, expected.embedding_)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning:")
def test_layers_components_pseudotime_and_map(rows: tuple[np.ndarray, np.ndarray]) -> None:
    x = rows[0]
    adata = SimpleNamespace(X=x * 0, layers={"counts": csr_matrix(x)}, obsm={}, uns={}, obs={})
    model = ep.interop.eigenmaps(adata, 3, layer="counts", n_pcs=6, root=4, with_map=True)
    expected = ep.OptimalApproximationEigenmaps(3, n_neighbors=15, random_state=0).fit(x[:, :6])
    np.testing.assert_allclose(adata.obsm["X_eigenprobe"], expected.embedding_)
    assert adata.uns["eigenprobe"]["params"]["n_pcs"] == 6 and adata.obsm[
        "X_eigenprobe_map"
    ].shape == (240, 2)
    np.testing.assert_allclose(
        adata.obs["eigenprobe_pseudotime"], ep.apps.pseudotime(model.basis_, 4)
    )
    with pytest.raises(InputError, match="expected layer to be one of counts, got 'raw'"):
        ep.interop.eigenmaps(adata, layer="raw")


@pytest.mark.long
def test_the_graph_of_bundled_cells_has_their_kinds() -> None:
    """Louvain on the graph finds the kinds of the cells as well as on that of the principal
    components, within the spread of its seeds; on a graph of the coordinates it falls into twice as
    many clusters.
    """
    scanpy = pytest.importorskip("scanpy")
    networkx = pytest.importorskip("networkx")
    from sklearn.metrics import adjusted_rand_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = scanpy.datasets.pbmc68k_reduced()
        ep.interop.eigenmaps(adata, 10)
        scanpy.pp.neighbors(adata, use_rep="X_pca", key_added="pca")
    assert adata.uns["eigenprobe_neighbors"]["connectivities_key"] == "eigenprobe_connectivities"
    found = {}
    for key in ("pca", "eigenprobe"):
        graph = networkx.from_scipy_sparse_array(adata.obsp[f"{key}_connectivities"])
        scores = []
        for seed in range(3):
            labels = np.empty(adata.n_obs, int)
            for number, cells in enumerate(
                networkx.community.louvain_communities(graph, seed=seed)
            ):
                labels[list(cells)] = number
            scores.append(adjusted_rand_score(adata.obs["bulk_labels"], labels))
        found[key] = np.mean(scores)
    assert found["eigenprobe"] > found["pca"] - 0.03 > 0.3


def test_an_unknown_representation_is_one_line(rows: tuple[np.ndarray, np.ndarray]) -> None:
    adata = SimpleNamespace(X=rows[0], obsm={"X_pca": rows[0]}, uns={})
    with pytest.raises(InputError, match="one of X, X_pca, got 'X_umap'"):
        ep.interop.eigenmaps(adata, use_rep="X_umap")


def test_anndata_copies_and_files(rows: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata", reason="pip install 'eigenprobe[anndata]'")
    given = anndata.AnnData(rows[0])
    result = ep.interop.eigenmaps(given, n_components=4, copy=True)
    assert "X_eigenprobe" not in given.obsm and result.obsm["X_eigenprobe"].shape == (240, 4)
    result.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert np.array_equal(again.obsm["X_eigenprobe"], result.obsm["X_eigenprobe"])
    assert np.allclose(
        again.uns["eigenprobe"]["eigenvalues"], result.uns["eigenprobe"]["eigenvalues"]
    )


def test_scanpy_goes_on_from_there(rows: tuple[np.ndarray, np.ndarray]) -> None:
    anndata = pytest.importorskip("anndata", reason="pip install 'eigenprobe[anndata]'")
    scanpy = pytest.importorskip("scanpy", reason="pip install scanpy")
    adata = anndata.AnnData(rows[0])
    scanpy.pp.pca(adata, n_comps=8)
    ep.interop.eigenmaps(adata, use_rep="X_pca", n_components=5)
    scanpy.pp.neighbors(adata, use_rep="X_eigenprobe")
    assert (
        adata.uns["neighbors"]["params"]["use_rep"] == "X_eigenprobe"
        and adata.obsp["connectivities"].nnz > 0
    )
    ep.interop.eigenmaps(adata, neighbors_key="neighbors", key_added="X_again", n_components=3)
    assert adata.obsm["X_again"].shape == (240, 3)


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning:")
def test_cells_among_their_own_neighbours_are_left_out(rows: tuple[np.ndarray, np.ndarray]) -> None:
    """Some rows hold the distance of the cell to itself as well."""
    distances = kneighbors_graph(rows[0], 8, mode="distance")
    own = np.arange(0, 240, 3)
    looped = distances.tocoo()
    places = np.append(looped.row, own), np.append(looped.col, own)
    looped = csr_matrix((np.append(looped.data, np.zeros(len(own))), places), shape=(240, 240))
    found = []
    for stored in (distances, looped):
        facts = {"neighbors": {"params": {"metric": "euclidean", "n_neighbors": 9}}}
        adata = SimpleNamespace(X=rows[0], obsm={}, uns=facts, obsp={"distances": stored})
        found.append(ep.interop.eigenmaps(adata, 3, neighbors_key="neighbors").embedding_)
    np.testing.assert_allclose(found[0], found[1])
