"""On real shapes: at or above the paper's figures with one setting, and ahead of the peer in the same run."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.evaluation import resampling, surfaces

pytestmark = [pytest.mark.data, pytest.mark.filterwarnings("ignore:.*coincident vertices")]


@pytest.fixture(scope="module")
def measured(data_dir):
    shapes = [data_dir / "mpz14" / name for name in ("bimba.obj", "dente.obj", "fertility.obj", "teddy.obj")]
    return surfaces.run(shapes, methods=["direct", "robust"], figures=False)


def test_every_shape_is_at_or_above_the_paper(measured) -> None:
    for row in measured.of("direct", ["bimba", "dente", "fertility"]):
        for level in (10, 20):
            assert row[f"cosine_{level}"] >= row[f"paper_cosine_{level}"], (row["shape"], level)
        assert row["discrepancy"] < row["paper_discrepancy"]
        assert row["rebuild_ratio_20"] < 1.02


def test_the_means_reach_the_targets(measured) -> None:
    mean = measured.mean("direct", ["bimba", "dente", "fertility"])
    assert mean["cosine_10"] >= 0.985
    assert mean["cosine_20"] >= 0.965
    assert mean["cosine_50"] >= 0.85
    assert mean["discrepancy"] <= 0.02


def test_ahead_of_the_peer(measured) -> None:
    ours, peer = measured.mean("direct"), measured.mean("robust")
    assert all(ours[f"cosine_{k}"] > peer[f"cosine_{k}"] for k in (10, 20, 50))
    assert ours["discrepancy"] < peer["discrepancy"]


def test_an_unevenly_sampled_shape(measured) -> None:
    row = measured.of("direct", ["teddy"])[0]
    assert np.all(np.array([row["cosine_10"], row["cosine_20"], row["cosine_50"]]) >= [0.97, 0.94, 0.65])


def test_density_ten_to_one(data_dir) -> None:
    row = resampling.run([data_dir / "mpz14" / "bimba.obj"], n=3000)[0]
    assert row["mass_uneven"] >= 0.8
    assert row["loss"] <= 0.03
