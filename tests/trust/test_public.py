"""Every public name with every argument exchanged for something odd: an answer, or one clear
line.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe import apps, geometry, interop, operators
from eigenprobe_lab import evaluation
from tests.meshes import cube

pytestmark = pytest.mark.long

ODD: dict[str, Any] = {
    "text": "a",
    "none": None,
    "negative": -1,
    "zero": 0,
    "huge": 10**9,
    "fraction": 2.5,
    "nan": float("nan"),
    "complex": 1 + 2j,
    "empty": np.zeros((0, 3)),
    "no columns": np.zeros((60, 0)),
    "scalar array": np.array(3.0),
    "flat": np.arange(60.0),
    "short": np.ones((7, 3)),
    "cube": np.ones((2, 3, 4, 5)),
    "nans": np.full((60, 3), np.nan),
    "infinite": np.full(60, np.inf),
    "texts": np.array([["a", "b", "c"]] * 60),
    "objects": np.array([[1, None, "a"]] * 60, dtype=object),
    "complexes": np.ones((60, 3)) * 1j,
    "half": np.random.default_rng(0).random((60, 3)).astype(np.float16),
    "integers": np.random.default_rng(0).integers(0, 9, (60, 3)),
    "truths": np.ones((60, 3), bool),
    "masked": np.ma.masked_array(np.ones((60, 3)), np.eye(60, 3, dtype=bool)),
    "copies": np.ones((60, 3)),
    "graded": torch.rand((60, 3), generator=torch.Generator().manual_seed(0), requires_grad=True),
    "ragged": [[1.0, 2.0], [3.0]],
    "list": [1, 2, 3],
    "empty list": [],
    "dictionary": {"a": 1},
    "call": len,
}


@cache
def shape() -> geometry.Shape:
    vertices, faces = cube(2)
    return geometry.Shape(vertices, faces)


@cache
def basis() -> ep.Basis:
    return ep.decompose(np.random.default_rng(1).normal(size=(60, 3)), 6)


@cache
def estimator() -> ep.OptimalApproximationEigenmaps:
    return ep.OptimalApproximationEigenmaps(2, random_state=0).fit(
        np.random.default_rng(1).normal(size=(60, 3))
    )


def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """A call of every name that works."""
    b, x, s = basis(), basis().points, shape()
    f, square = np.ones((60, 2)), np.eye(6)
    two = {"source": b, "target": b}
    return {
        "decompose": (
            ep.decompose,
            {"points": x, "k": 3, "smoother": "adaptive", "metric": "euclidean", "seed": 0}
            | dict.fromkeys(
                ("neighbours", "bandwidth", "dimension", "potential", "boundary", "anisotropy")
            )
            | {
                "method": "direct",
                "measure": None,
                "probes": None,
                "eigenvalues": "rayleigh",
                "tol": 1e-6,
            },
        ),
        "laplacian": (
            ep.laplacian,
            {
                "points": x,
                "neighbours": None,
                "dimension": None,
                "smoother": "adaptive",
                "metric": "euclidean",
                "potential": None,
                "boundary": None,
            },
        ),
        "gradient": (operators.gradient, {"points": x, "neighbours": None, "dimension": None}),
        "build_graph": (
            ep.build_graph,
            {"points": x, "k": 5, "metric": "euclidean", "backend": "auto"},
        ),
        "build_smoother": (
            ep.build_smoother,
            {
                "source": x,
                "kind": "adaptive",
                "k": 5,
                "bandwidth": None,
                "dimension": None,
                "metric": "euclidean",
            },
        ),
        "Probes": (
            ep.Probes,
            {"count": 5, "steps": 2, "k": 3, "sigma": None, "distribution": "uniform"},
        ),
        "Basis": (
            ep.Basis,
            {"normalized": b.normalized, "mass": b.mass, "eigenvalues": b.eigenvalues, "points": x},
        ),
        "Basis()": (b, {"points": x[:3]}),
        "project": (b.project, {"f": f}),
        "reconstruct": (b.reconstruct, {"coefficients": np.ones((6, 2))}),
        "filter": (b.filter, {"f": f, "response": np.ones(6)}),
        "truncate": (b.truncate, {"k": 3}),
        "load": (ep.Basis.load, {"path": "nowhere.safetensors"}),
        "from_pretrained": (ep.SpectralModel.from_pretrained, {"source": "nowhere"}),
        "estimator": (
            lambda X, **o: ep.OptimalApproximationEigenmaps(random_state=0, **o).fit(X),
            {
                "X": x,
                "n_components": 2,
                "solver": "direct",
                "metric": "auto",
                "n_neighbors": 5,
                "coordinates": "sphere",
                "max_samples": "auto",
            },
        ),
        "transform": (estimator().transform, {"X": x}),
        "inverse_transform": (estimator().inverse_transform, {"X": np.ones((3, 2))}),
        "partial_fit": (ep.OptimalApproximationEigenmaps(2).partial_fit, {"X": x}),
        "compare": (evaluation.compare, {"basis": b, "oracle": b, "indices": None}),
        "compare_vectors": (
            evaluation.compare_vectors,
            {
                "vectors": b.vectors,
                "reference": b.vectors,
                "eigenvalues": b.eigenvalues,
                "reference_eigenvalues": b.eigenvalues,
            },
        ),
        "apply_filter": (
            apps.apply_filter,
            {"basis": b, "f": f, "name": "heat", "time": 1.0, "outside": 0.0},
        ),
        "response": (apps.response, {"name": "heat", "time": 1.0}),
        "distance": (apps.distance, {"basis": b, "sources": 0, "kind": "biharmonic", "time": None}),
        "spectral_embedding": (
            apps.spectral_embedding,
            {"basis": b, "kind": "diffusion", "time": None},
        ),
        "geodesic_distance": (apps.geodesic_distance, {"cloud": x, "sources": 0, "time": None}),
        "heat_kernel": (apps.heat_kernel, {"basis": b, "source": 0, "time": 0.1}),
        "hks": (apps.hks, {"basis": b, "times": 4, "sources": None, "scaled": False}),
        "wks": (
            apps.wks,
            {"basis": b, "energies": 4, "sigma": None, "sources": None, "scaled": True},
        ),
        "functional_map": (
            apps.functional_map,
            {**two, "source_functions": f, "target_functions": f, "k": None, "weight": 1e-3},
        ),
        "map_from_points": (apps.map_from_points, {**two, "points": np.arange(60), "k": None}),
        "match": (
            apps.match,
            {
                **two,
                "landmarks": None,
                "k": 3,
                "refine_to": None,
                "step": 1,
                "weight": 0.01,
                "descriptors": 4,
            },
        ),
        "point_map": (apps.point_map, {"matrix": square, **two}),
        "zoomout": (apps.zoomout, {"matrix": np.eye(3), **two, "k": None, "step": 1}),
        "retrieve": (apps.retrieve, {"bases": [b, b], "count": None}),
        "segment": (
            apps.segment,
            {"basis": b, "parts": 2, "kind": "commute", "time": None, "seed": 0},
        ),
        "shape_dna": (apps.shape_dna, {"basis": b, "count": None, "normalise": "first"}),
        "shape_dna_distance": (
            apps.shape_dna_distance,
            {"first": b, "second": b, "count": None, "normalise": "slope"},
        ),
        "sample_surface": (
            geometry.sample_surface,
            {"mesh": s, "n": 20, "seed": 0, "density": None},
        ),
        "sample_volume": (geometry.sample_volume, {"mesh": s, "n": 20, "seed": 0}),
        "face_areas": (geometry.face_areas, {"vertices": s.vertices, "faces": s.faces}),
        "vertex_areas": (geometry.vertex_areas, {"vertices": s.vertices, "faces": s.faces}),
        "is_closed": (geometry.is_closed, {"faces": s.faces}),
        "farthest_points": (
            geometry.farthest_points,
            {"x": x, "n": 5, "seed": 0, "start": None, "weight": None},
        ),
        "oracle": (
            geometry.oracle,
            {"vertices": s.vertices, "faces": s.faces, "k": 3, "kind": "auto"},
        ),
        "Shape": (geometry.Shape, {"vertices": s.vertices, "faces": s.faces, "name": "a"}),
        "geometry.load": (geometry.load, {"path": "nowhere.obj"}),
        "find_shapes": (geometry.find_shapes, {"paths": ["nowhere"]}),
        "diffusionnet_operators": (
            interop.diffusionnet_operators,
            {"points": x, "k_eig": 4, "faces": None},
        ),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(calls()))
def test_odd_arguments(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    function, arguments = calls()[name]
    raw = []
    for argument in arguments:
        for word, odd in ODD.items():
            try:
                function(**arguments | {argument: odd})
            except ep.InputError as error:
                if "\n" in str(error).strip():
                    raw.append(f"{argument}={word}: {error!r}")
            except Exception as error:
                raw.append(f"{argument}={word}: {type(error).__name__}: {str(error)[:150]!r}")
    assert not raw, "\n".join([f"{len(raw)} raw errors of {name}", *raw])


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "descending": lambda x: x[::-1].copy()[::-1],
    "other bytes": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "longer": lambda x: x.astype(np.longdouble),
    "every other": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape),
}


def numbers(value: Any) -> list[np.ndarray]:
    """All arrays of numbers in what a call gives."""
    if isinstance(value, ep.Basis):
        return numbers([value.eigenvalues, value.vectors, value.mass])
    if isinstance(value, (list, tuple)):
        return [found for each in value for found in numbers(each)]
    if hasattr(value, "__dict__") and not hasattr(value, "dtype"):
        return numbers(list(vars(value).values()))
    if hasattr(value, "toarray"):
        return [value.toarray()]
    if isinstance(value, torch.Tensor):
        return [value.to_dense().numpy()]
    return [value] if isinstance(value, np.ndarray) and value.dtype.kind in "fiu" else []


@pytest.mark.parametrize(
    "name", sorted(set(calls()) - {"load", "from_pretrained", "geometry.load", "find_shapes"})
)
def test_numbers_are_the_same_in_any_layout(name: str) -> None:
    """Torch takes no negative strides, no other byte order and no long double, and warns of
    read-only arrays.
    """
    if name == "partial_fit":  # every call adds rows
        return
    function, arguments = calls()[name]
    held = {
        key
        for key, value in arguments.items()
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = numbers(function(**arguments))
    for word, layout in LAYOUTS.items() if held else ():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = numbers(function(**arguments | {key: layout(arguments[key]) for key in held}))
        assert len(found) == len(expected), word
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9, err_msg=word)
        assert not [each for each in said if "writable" in str(each.message)], word


@pytest.mark.parametrize(
    "wrong", [np.array([["a"] * 6] * 60), np.ones((60, 6), object), [[1.0] * 6] * 60, "a"]
)
def test_a_basis_is_made_of_numbers(wrong: Any) -> None:
    with pytest.raises(ep.InputError, match=r"expected (arrays|a basis)"):
        ep.Basis(wrong, basis().mass, basis().eigenvalues)
