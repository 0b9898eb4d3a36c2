"""Inputs, files and settings that once gave a raw error, a wrong answer without a word, or minutes
of waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.io.tables import read_table
from eigenprobe.smoothers import build_smoother
from eigenprobe_lab.factory.recipes import load_recipe
from tests.clouds import fibonacci_sphere

SPHERE = np.asarray(fibonacci_sphere(200))
USES: dict[str, Callable[[Any], Any]] = {
    "decompose": lambda x: ep.decompose(x, 4),
    "build_smoother": build_smoother,
    "laplacian": ep.laplacian,
    "estimator": lambda x: ep.Eigenmaps(n_components=2).fit(x),
    "transform": lambda x: ep.Eigenmaps(n_components=2).fit(SPHERE).transform(x),
    "extension": lambda x: ep.decompose(SPHERE, 4)(x),
    "geodesics": lambda x: ep.apps.geodesic_distance(x, 0),
}
KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "meta": lambda x: x.to("meta"),
    "coo": torch.Tensor.to_sparse,
    "csr": torch.Tensor.to_sparse_csr,
    "quantised": lambda x: torch.quantize_per_tensor(x.float(), 0.01, 0, torch.qint8),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", USES)
def test_tensors_without_ordinary_numbers_are_refused(use: str, kind: str) -> None:
    with pytest.raises(InputError, match="expected a dense tensor"):
        USES[use](KINDS[kind](torch.from_numpy(SPHERE)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", ["build_smoother", "estimator", "transform", "extension"])
def test_nested_tensors_are_several_clouds_and_no_rows(use: str) -> None:
    parts = [torch.from_numpy(SPHERE), torch.from_numpy(2 * SPHERE[:150])]
    nested = torch.nested.nested_tensor(parts)
    with pytest.raises(InputError, match="expected a dense tensor"):
        USES[use](nested)
    for found, part in zip(ep.decompose(nested, 4), parts, strict=True):
        torch.testing.assert_close(found.eigenvalues, ep.decompose(part, 4).eigenvalues)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("use", USES)
def test_short_floats_are_taken(use: str, dtype: torch.dtype) -> None:
    USES[use](torch.from_numpy(SPHERE).to(dtype))


@pytest.mark.parametrize("name", ["a.ply", "a.csv", "a.npz", "a.vtk", "a.safetensors"])
def test_a_basis_of_short_floats_is_written(name: str, tmp_path: Path) -> None:
    basis = ep.decompose(torch.from_numpy(SPHERE).bfloat16(), 4)
    basis.save(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.parametrize("kind", ["adaptive", "symmetric", "row"])
@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e-110, np.float64), (1e110, np.float64), (1e30, np.float32)]
)
def test_smoothers_of_sizes_beyond_their_numbers_are_refused(
    scale: float, dtype: type, kind: Any
) -> None:
    with pytest.raises(InputError, match="change the unit"):
        build_smoother((scale * SPHERE).astype(dtype), kind)


@pytest.mark.parametrize("kind", ["adaptive", "symmetric", "row"])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(2e-60, np.float64), (1e59, np.float64), (2e-6, np.float32), (9e7, np.float32)],
)
def test_smoothers_scale_up_to_these_sizes(scale: float, dtype: type, kind: Any) -> None:
    found, unit = (build_smoother((s * SPHERE).astype(dtype), kind) for s in (scale, 1.0))
    assert float(found.step_time) / scale**2 == pytest.approx(float(unit.step_time), rel=1e-3)
    torch.testing.assert_close(
        found.apply(unit.mass[:, None]), unit.apply(unit.mass[:, None]), rtol=1e-3, atol=1e-5
    )


def test_a_dimension_is_at_most_that_of_the_points() -> None:
    for points, dimension in (
        (SPHERE, 64),
        (SPHERE[:30], 3.5),
        (np.random.default_rng(0).random((100, 5)), 6),
    ):
        with pytest.raises(InputError, match="dimension must be above 0 and at most"):
            ep.decompose(points, 5, dimension=dimension)
    with pytest.raises(InputError, match="beyond all numbers"):
        ep.decompose(np.random.default_rng(0).random((100, 70)), 5, dimension=64)
    basis = ep.decompose(np.random.default_rng(0).random((100, 70)), 5, dimension=20)
    assert np.isfinite(basis.vectors).all() and np.isfinite(basis.eigenvalues).all()


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_one_neighbour_in_a_solid() -> None:
    """As many zero eigenvalues as parts, at most ten here."""
    for seed in range(5):
        basis = ep.decompose(
            np.random.default_rng(seed).random((200, 3)), 10, neighbours=1, dimension=3
        )
        assert (
            np.isfinite(basis.vectors).all()
            and np.abs(basis.eigenvalues[: basis.info["components"]]).max() < 1e-6
        )


@pytest.mark.parametrize("rows", [2, 3])
def test_an_estimator_of_two_rows(rows: int) -> None:
    for seed in range(5):
        model = ep.Eigenmaps(n_components=1).fit(np.random.default_rng(seed).normal(size=(rows, 5)))
        assert np.isfinite(model.embedding_).all() and np.ptp(model.embedding_) > 1e-3
        assert 0 < model.eigenvalues_[0] < 1e6


def test_many_neighbours_are_counted_as_few_are() -> None:
    """700 rows of 690 neighbours took 73 s and more."""
    x = np.random.default_rng(0).normal(size=(700, 16))
    began = time.process_time()
    ep.Eigenmaps(n_components=4, n_neighbors=690).fit(x)
    assert time.process_time() - began < 20


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_resolvent_probes_of_a_needle() -> None:
    """141 s before powers were taken of eigenvalues; the vectors are those of the operator."""
    x = np.random.default_rng(0).random((256, 3)) * [1000, 1, 1]
    began = time.process_time()
    found = ep.decompose(x, 8, probes="resolvent")
    assert time.process_time() - began < 20
    np.testing.assert_allclose(
        found.eigenvalues[1:], ep.decompose(x, 8, tol=1e-10).eigenvalues[1:], rtol=1e-6
    )


def _altered(path: Path, name: str, value: int) -> None:
    with safe_open(path, "pt") as file:
        tensors, header = {key: file.get_tensor(key) for key in file.keys()}, file.metadata()  # noqa: SIM118
    tensors[name].view(-1)[0] = value
    save_file(tensors, path, metadata=header)


@pytest.mark.parametrize("value", [10**6, -5])
@pytest.mark.parametrize("name", ["matrix.col_indices", "_place", "_kept", "extension.indices"])
def test_rows_that_a_damaged_estimator_names_are_missed_when_it_is_read(
    name: str, value: int, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(100, 5))
    x[7] = x[3]
    ep.Eigenmaps(n_components=3).fit(x).save(tmp_path / "model")
    file = "basis.safetensors" if name.startswith("extension") else "rows.safetensors"
    _altered(tmp_path / "model" / file, name, value)
    with pytest.raises(InputError):
        ep.Eigenmaps.load(tmp_path / "model")


def test_points_that_a_damaged_basis_names(tmp_path: Path) -> None:
    basis = ep.decompose(SPHERE, 4)
    for name, value in {
        "rows": np.arange(200),
        "short_cuts": np.array([[0, 5]]),
        "faces": np.array([[0, 1, 2]]),
    }.items():
        vars_of = {name: value}
        ep.Basis(**(vars(basis) | vars_of)).save(path := tmp_path / "b.safetensors")
        ep.Basis.load(path)
        _altered(path, name, -5)
        with pytest.raises(InputError):
            ep.Basis.load(path)


@pytest.mark.parametrize("line", ["1: 2", "true: 3", "null: 1", "2020-01-01: 1", "1.5: 2", '"": 1'])
def test_a_recipe_has_words_as_keys(line: str, tmp_path: Path) -> None:
    (recipe := tmp_path / "a.yaml").write_text(f"kind: overfit\n{line}\n")
    with pytest.raises(InputError, match="has no key"):
        load_recipe(recipe)


def test_a_change_of_a_recipe_that_is_no_yaml(tmp_path: Path) -> None:
    (recipe := tmp_path / "a.yaml").write_text("kind: overfit\n")
    with pytest.raises(InputError, match="cannot read the value"):
        load_recipe(recipe, ["steps=["])


def test_a_label_file_is_named_where_it_does_not_fit(tmp_path: Path) -> None:
    np.save(table := tmp_path / "t.npy", np.random.default_rng(0).normal(size=(50, 4)))
    (labels := tmp_path / "words.txt").write_text("\n".join(["a"] * 40))
    with pytest.raises(
        InputError,
        match=r"words\.txt must hold one label per row of .*t\.npy \(50\), got shape \(40,\)",
    ):
        read_table(table, str(labels))


def test_a_title_that_looks_like_a_mark_of_the_page(tmp_path: Path) -> None:
    basis = ep.decompose(SPHERE, 4)
    basis.report(path := tmp_path / "r.html", title="@@PLOTLY@@", facts={"@@BAR@@": "@@NOTE@@"})
    text = path.read_text(encoding="utf-8")
    assert "<title>@@PLOTLY@@" in text and "@@BAR@@</td><td>@@NOTE@@" in text
    basis.report(other := tmp_path / "s.html", title="a", facts={"a": "b"})
    assert abs(len(text) - len(other.read_text(encoding="utf-8"))) < 200


def test_rows_beyond_single_precision_are_refused(rng: np.random.Generator) -> None:
    """The estimator places new rows in float32, in units of the fitted cloud; a basis has finite
    values however far away.
    """
    model = ep.Eigenmaps(3, random_state=0).fit(rng.normal(size=(60, 10)))
    far = rng.normal(size=(4, 10)) * np.array([[1], [1], [1e100], [1]])
    with pytest.raises(InputError, match="row 2 is too far from the fitted points"):
        model.transform(far)
    x = rng.normal(size=(100, 3))
    basis = ep.SpectralModel.from_pretrained("surface").encode(
        x / np.linalg.norm(x, axis=1, keepdims=True), k=4
    )
    assert np.isfinite(basis(np.array([[0.0, 0, 1], [1e60, 0, 0]]))).all()
