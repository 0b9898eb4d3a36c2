"""The generalisation table: its rows and their order."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.io.shapes import Shape, save
from eigenprobe.networks.spectral import SpectralConfig, SpectralNetwork
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe_lab.evaluation.pretrained import Comparison, run
from eigenprobe_lab.paper.published import published_collections

pytest.importorskip("igl")


@pytest.fixture(scope="module")
def model() -> SpectralModel:
    torch.manual_seed(0)
    return SpectralModel(
        SpectralNetwork(
            SpectralConfig(width=16, layers=1, heads=1, feedforward=16, point=(8,), shape=8)
        )
    )


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A closed, bumpy ellipsoid of about 1000 vertices."""
    from scipy.spatial import ConvexHull

    i = np.arange(1000) + 0.5
    height, angle = 1 - 2 * i / 1000, np.pi * (1 + 5**0.5) * i
    ring = np.sqrt(1 - height**2)
    sphere = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], 1)
    faces = ConvexHull(sphere).simplices
    normal = np.cross(
        sphere[faces[:, 1]] - sphere[faces[:, 0]], sphere[faces[:, 2]] - sphere[faces[:, 0]]
    )
    flip = (normal * sphere[faces].mean(1)).sum(1) < 0
    faces[flip] = faces[flip][:, ::-1]
    folder = tmp_path_factory.mktemp("shapes") / "blobs"
    folder.mkdir()
    vertices = sphere * [1.6, 1.0, 0.7] * (1 + 0.2 * np.sin(3 * sphere[:, :1]))
    save(Shape(vertices, faces), folder / "blob.obj")
    return folder


def test_rows_and_table(model, mesh, tmp_path):
    result = run(
        [mesh], Comparison(model, 400, 20, volumes=1), published=published_collections(["horse"])
    )
    result.write(tmp_path, "generalisation")
    rows = {(row["domain"], row["start"], row["stage"]): row for row in result.rows}
    assert not result.failed and {row["domain"] for row in result.rows} == {"surface", "volume"}
    networks = {"network, seeds, guards", "network", "its inputs alone"}
    assert {start for _, start, _ in rows} == {"closed form", "polynomials"} | networks
    assert rows["surface", "closed form", ""]["k<=10"] > 0.9
    assert rows["volume", "closed form", ""]["k<=10"] == pytest.approx(1)
    assert ("surface", "polynomials", "feed-forward") not in rows
    for start in ("network", "its inputs alone", "network, seeds, guards"):
        assert rows["volume", start, "Ritz"]["subspace 10"] > 0.9
    text = result.markdown()
    assert "the paper, MPZ14" in text and "its inputs alone" in text
    assert {p.name for p in tmp_path.iterdir()} == {
        "generalisation.csv",
        "generalisation.json",
        "generalisation.md",
    }


def test_bad_requests(model, mesh, tmp_path):
    with pytest.raises(InputError, match="at most 50"):
        Comparison(model, k=51)
    with pytest.raises(InputError, match="no shapes"):
        run([tmp_path], Comparison(model))
    with pytest.raises(InputError, match="none of the shapes"):
        run([mesh], Comparison(model, 5000))
