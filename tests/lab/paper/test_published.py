"""Tests of `paper.published`: the numbers the paper prints, to stand beside ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eigenprobe.io.shapes import find_shapes
from eigenprobe_lab.evaluation import surfaces
from eigenprobe_lab.evaluation.surfaces import Measure
from eigenprobe_lab.factory import recipes
from eigenprobe_lab.paper.published import (
    COLUMNS,
    IMAGE_SETTINGS,
    NINE,
    PAPER,
    SINGLE_SHAPES,
    published_scores,
    single_shape,
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def result(mesh_folder, tmp_path_factory):
    found = surfaces.run(
        [mesh_folder], Measure(["direct", "robust", "oracle"], 400, 12), published=PAPER
    )
    return found.write(out := tmp_path_factory.mktemp("out"), "surfaces"), out


@pytest.fixture(scope="module")
def measured(data_dir):
    shapes = [path for path in find_shapes([data_dir / "mpz14"]) if path.stem in (*NINE, "teddy")]
    return surfaces.run(shapes, Measure(["direct", "robust"]), published=PAPER)


RECIPE = Path(__file__).parents[3] / "src" / "eigenprobe_lab" / "recipes" / "paper_images.yaml"


def test_rows_hold_every_measure(result) -> None:
    rows = result[0].rows
    assert [(row["shape"], row["method"]) for row in rows] == [
        (shape, method) for shape in ("blob", "kitten") for method in ("direct", "robust", "oracle")
    ]
    for row in rows:
        assert all(
            0 <= row[f"{name}_{k}"] <= 1 + 1e-9
            for name in ("cosine", "matched", "subspace")
            for k in (10, 12)
        )
        assert row["matched_12"] >= row["cosine_12"] - 1e-9
        assert row["n"] == 400
    direct = rows[0]
    assert direct["cosine_10"] > 0.8 and direct["subspace_10"] > 0.95
    assert direct["discrepancy"] < 0.1
    assert 0.9 < direct["rebuild_ratio_10"] < 1.2
    assert direct["mass_correlation"] > 0.5
    oracle = rows[2]
    assert oracle["cosine_12"] == pytest.approx(1)
    assert oracle["discrepancy"] == 0
    assert rows[3]["paper_cosine_10"] == single_shape("kitten")["cosine_10"]


def test_the_papers_numbers() -> None:
    nine = [SINGLE_SHAPES[name] for name in NINE]
    means = np.mean(nine, axis=0)[:4]
    assert np.allclose(means, [0.954, 0.919, 0.774, 0.120], atol=6e-4)
    assert single_shape("david_head") == dict(zip(COLUMNS, SINGLE_SHAPES["david"]))
    assert single_shape("unheard of") == {}


@pytest.mark.data
def test_every_shape_is_at_or_above_the_paper(measured) -> None:
    rows = measured.of("direct", NINE)
    assert {row["shape"] for row in rows} == set(NINE)
    for row in rows:
        for level in (10, 20, 50):
            assert row[f"cosine_{level}"] >= row[f"paper_cosine_{level}"], (row["shape"], level)
        assert row["discrepancy"] < row["paper_discrepancy"], row["shape"]
        assert row["rebuild_ratio_20"] < 1.05, row["shape"]


@pytest.mark.data
def test_the_means_reach_the_targets(measured) -> None:
    mean = measured.mean("direct", NINE)
    assert mean["cosine_10"] >= 0.985
    assert mean["cosine_20"] >= 0.965
    assert mean["cosine_50"] >= 0.85
    assert mean["discrepancy"] <= 0.02


@pytest.mark.parametrize("pair", IMAGE_SETTINGS, ids="-".join)
def test_the_recipe_fills_in_the_papers_settings(pair: tuple[str, str]) -> None:
    loaded = recipes.load_recipe(
        RECIPE, [f"dataset={pair[0]}", f"extractor={pair[1]}"]
    ).with_published()
    assert (loaded.vectors, loaded.probes, loaded.sample, loaded.rate, loaded.accumulate) == (
        11,
        300,
        5000,
        5e-4,
        16,
    )
    assert loaded.width == (256 if pair[1] == "clip" else 128) and loaded.heads in (4, 8)
    assert (
        loaded.width,
        loaded.heads,
        loaded.neighbours,
        loaded.sigma,
        loaded.smoothing_steps,
    ) == IMAGE_SETTINGS[pair]
    assert published_scores(*pair, 10)["nmi"] > published_scores(*pair, 2)["nmi"] > 0.4
