"""Tests of `decomposition.settings`: which operator is meant, and what a file keeps of it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from benchmarks.ledger import PARTS, SOURCE
from eigenprobe.decomposition import OperatorSettings, geometry_of
from eigenprobe.errors import InputError
from tests import clouds as c


def test_the_largest_part_of_one_is_the_cloud(rng: np.random.Generator) -> None:
    x = rng.random((400, 2))
    found, plain = ep.decompose(x, 4, parts="largest"), ep.decompose(x, 4)
    assert (
        found.info["components"] == 1
        and "resolution" not in found.info
        and found.prepared().cloud.whole
    )
    np.testing.assert_allclose(found.vectors, plain.vectors)


@pytest.mark.parametrize(
    "options", [{"bandwidth": 0.3}, {"smoother": "symmetric"}, {"metric": "cosine"}]
)
def test_there_are_no_derivatives_of_other_weights(
    options: dict[str, Any], rng: np.random.Generator
) -> None:
    x = torch.from_numpy(rng.normal(size=(150, 3))).requires_grad_()
    with pytest.warns(ep.EigenprobeWarning, match="no derivatives with respect to the points"):
        assert not ep.decompose(x, 3, **options).eigenvalues.requires_grad
    plain = OperatorSettings(dimension=2.0, moving=True)
    assert plain.differentiable(plain.prepare(x.detach()).smoother)


def test_the_geometry_of_a_basis_is_its_own_where_it_is_one(rng: np.random.Generator) -> None:
    """Symmetric, Euclidean and plain: that of the basis itself; else one of the same graph; of no
    source the usual.
    """
    x = c.random_sphere(150, rng) + 3
    plain = ep.decompose(x, 3, neighbours=9)
    assert geometry_of(plain) is plain.prepared()
    for options in ({"measure": 0.5}, {"smoother": "row"}, {"metric": "cosine"}):
        other = ep.decompose(x, 3, neighbours=9, **options)
        found = geometry_of(other)
        assert (
            found is not other.prepared()
            and found.graph.k == 9
            and found.graph.metric == "euclidean"
        )
        torch.testing.assert_close(
            found.smoother.matrix.to_dense(), plain.smoother.matrix.to_dense()
        )
    unknown = geometry_of(replace(plain, source=None))
    torch.testing.assert_close(unknown.smoother.mass, OperatorSettings().prepare(x).smoother.mass)
    with pytest.raises(InputError, match="without points has no geometry"):
        geometry_of(replace(plain, points=None))


def test_parts_of_the_ledger_are_those_of_the_library() -> None:
    for module, name, _, path in PARTS.values():
        assert hasattr(import_module(f"eigenprobe.{module}"), name), name
        assert (SOURCE / path).is_file()
