"""The map of an embedding: clusters apart, neighbours kept, new rows beside their kind, the same on every call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from eigenprobe import OptimalApproximationEigenmaps
from eigenprobe.cli import main
from eigenprobe.estimators import eigenmaps
from eigenprobe.extensions import neighbourhood as extensions


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_embed_writes_the_map(tmp_path: Path) -> None:
    X, y = make_blobs(150, 6, centers=3, random_state=0)
    np.savez(tmp_path / "table.npz", features=X[:120], labels=y[:120])
    np.save(tmp_path / "new.npy", X[120:])
    words = f"embed {tmp_path}/table.npz -k 4 --new {tmp_path}/new.npy --layout --device cpu --out {tmp_path}/o".split()
    assert main(words) == 0
    found = np.load(tmp_path / "o" / "embedding.npz")
    assert found["layout"].shape == (120, 2) and found["new_layout"].shape == (30, 2)
    assert (tmp_path / "o" / "report.html").is_file()


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_two_coordinates_of_embed_are_the_map(tmp_path: Path) -> None:
    X, _ = make_blobs(90, 6, centers=3, random_state=0)
    np.save(tmp_path / "table.npy", X)
    found = {}
    for name, words in {"map": "", "vectors": "--coordinates vectors", "bare": "--no-layout"}.items():
        line = f"embed {tmp_path}/table.npy -k 2 --no-report --device cpu --out {tmp_path}/{name} {words}"
        assert main(line.split()) == 0
        found[name] = np.load(tmp_path / name / "embedding.npz")
    np.testing.assert_allclose(found["map"]["embedding"], found["map"]["layout"], rtol=1e-6)
    vectors, mass = found["vectors"]["embedding"], found["vectors"]["mass"]
    np.testing.assert_allclose(vectors.T @ (mass[:, None] * vectors), np.eye(2), atol=1e-6)
    assert "layout" not in found["bare"] and (np.linalg.norm(found["bare"]["embedding"], axis=1) < 1).all()


def test_places_are_found_by_the_search_of_the_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of the fitted rows is made once, whatever is asked of them and however often."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    model = OptimalApproximationEigenmaps(2, random_state=0, device="cpu").fit(X[:120])
    made, real = [0][:0], extensions.searcher
    monkeypatch.setattr(extensions, "searcher", lambda data, **options: made.append(len(data)) or real(data, **options))
    model.transform(X[120:])
    places = [model.place(X[i:]) for i in (120, 130)]
    assert made == [120]
    np.testing.assert_array_equal(places[0][10:], places[1])


def test_the_map_of_a_network_is_drawn_from_the_graph_of_its_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains on several subsets, of which the first is the one that is described."""
    monkeypatch.setattr(eigenmaps, "SUBSET", 60)
    x = np.random.default_rng(0).normal(size=(200, 3))
    model = OptimalApproximationEigenmaps(3, solver="network", max_iter=2, random_state=0).fit(x)
    assert model.basis_.n == 60
    rows = torch.as_tensor(model.basis_.points)
    expected = torch.cdist(rows.double(), rows.double()).fill_diagonal_(torch.inf).argmin(1)
    assert torch.equal(model._graph.indices[:, 0], expected)
