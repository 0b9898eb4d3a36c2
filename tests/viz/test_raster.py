"""Visibility and interpolation of the software renderer, on shapes where the answer is known."""

from __future__ import annotations

import numpy as np

from eigenprobe.viz.raster import _boxed


def test_a_box_is_a_mean_of_neighbours(rng: np.random.Generator) -> None:
    layers = rng.normal(size=(2, 9, 7)).astype(np.float32)
    for axis in (1, 2):
        padded = np.pad(layers.astype(float), [(2, 2) if each == axis else (0, 0) for each in range(3)])
        direct = np.stack([padded.take(range(i, i + 5), axis).mean(axis) for i in range(layers.shape[axis])], axis)
        np.testing.assert_allclose(_boxed(layers, 2, axis), direct, atol=1e-6)
