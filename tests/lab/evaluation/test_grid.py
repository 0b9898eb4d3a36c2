"""The interior reference against the Neumann spectra of the cube and the ball."""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe_lab.evaluation.grid import Grid, grid_oracle
from tests.meshes import cube, sphere
from tests.spectra import ball_neumann, cube_neumann


def test_the_cube() -> None:
    points = np.random.default_rng(0).uniform(0.05, 1.95, (300, 3))
    vectors, eigenvalues = grid_oracle(cube(1, side=2.0), points, 20, cells=4000)
    exact = cube_neumann(20, side=2.0)
    assert np.allclose(eigenvalues, exact, rtol=0.02, atol=1e-9)
    assert np.allclose(vectors[:, 0], vectors[0, 0])
    waves = np.cos(np.pi * points / 2)  # the three vectors of the first eigenvalue
    residual = vectors[:, 1:4] - waves @ np.linalg.lstsq(waves, vectors[:, 1:4], rcond=None)[0]
    assert np.abs(residual).max() < 0.02


def test_the_ball() -> None:
    _, eigenvalues = grid_oracle(sphere(16), np.zeros((1, 3)), 20, cells=6000)
    assert np.allclose(eigenvalues[1:], ball_neumann(20)[1:], rtol=0.04)


def test_the_grid_weighs_what_the_solid_does() -> None:
    grid = Grid(sphere(16), 3000)
    assert grid.mass.sum() == pytest.approx(4 / 3 * np.pi, rel=0.02)
    assert np.abs(grid.stiffness @ np.ones(len(grid.mass))).max() < 1e-12


def test_the_grid_refuses() -> None:
    vertices, faces = cube(2)
    with pytest.raises(InputError, match="closed mesh"):
        Grid((vertices, faces[1:]), 100)
    with pytest.raises(InputError, match="positive volume"):
        Grid((vertices * [1, 1, 0], faces), 100)
    with pytest.raises(InputError, match="fewer than k"):
        grid_oracle((vertices, faces), np.zeros((1, 3)), 50, cells=20)
