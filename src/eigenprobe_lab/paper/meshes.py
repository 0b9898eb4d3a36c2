"""Clouds of real meshes for training: new points of their faces in every batch.

    npz: NAME/v (n, 3), NAME/f (m, 3)  ->  clouds (b, n, 3) in the unit sphere

Points are drawn evenly on the faces, four for each that is kept; the shape is turned, scaled, bent
and twisted as procedural ones are; farthest points are kept.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenprobe.geometry import farthest_points

from ..shapes import ProceduralShapes, Variation, unit_sphere
from ..shapes.fields import Rng
from ..shapes.meshes import read_meshes

CLEAN = Variation(partial=0, uneven=0, random=0, noise=0)
DRAWN = 4  # points on the faces for each that is kept
AHEAD = 8  # steps whose clouds are drawn at once: farthest points of many cost hardly more


class MeshClouds:
    """Clouds of the meshes of a file, on a device."""

    def __init__(self, path: Path, seed: int = 0, variation: Variation = CLEAN) -> None:
        corners = [np.asarray(v, np.float32)[f] for v, f in read_meshes(path)]
        self.seed, self.kept = seed, ((-1, 0, 0), torch.empty(0))
        self.warp = ProceduralShapes(variation=variation).warp
        self.corners = torch.from_numpy(np.concatenate(corners))  # (all faces, 3, 3)
        a, b, c = self.corners.double().unbind(1)
        areas = torch.linalg.cross(b - a, c - a).norm(dim=1)
        self.reached = areas.cumsum(0)  # a face is found by where a number lies among these
        ends = torch.tensor([len(each) for each in corners]).cumsum(0)
        self.ends = torch.cat([torch.zeros(1, dtype=torch.double), self.reached[ends - 1]])

    def __len__(self) -> int:
        return len(self.ends) - 1

    def to(self, device: torch.device | str) -> "MeshClouds":
        """The same, drawn on a device."""
        self.corners, self.reached, self.ends = (
            each.to(device) for each in (self.corners, self.reached, self.ends)
        )
        return self

    def draw(self, count: int, n: int, step: int) -> Tensor:
        """``(count, n, 3)`` of meshes that are chosen by seed and step."""
        turn, place = divmod(step, AHEAD)
        if self.kept[0] != (turn, count, n):
            self.kept = (turn, count, n), self._drawn(AHEAD * count, n, turn)
        return self.kept[1][place * count : (place + 1) * count]

    @torch.no_grad()
    def _drawn(self, count: int, n: int, turn: int) -> Tensor:
        device = self.corners.device
        g = torch.Generator(device).manual_seed(self.seed * 1_000_003 + turn)

        rng, m = Rng(count, g), DRAWN * n
        chosen = torch.randint(len(self), (count,), generator=g, device=device)
        low, high = self.ends[chosen, None], self.ends[chosen + 1, None]
        where = low + (high - low) * rng.uniform(0, 1, m).double()
        faces = torch.searchsorted(self.reached, where).clamp_max(len(self.corners) - 1)
        a, b, c = self.corners[faces].unbind(2)  # (count, 4 n, 3) each
        root, share = rng.uniform(0, 1, m, 1).sqrt(), rng.uniform(0, 1, m, 1)
        x = unit_sphere((1 - root) * a + root * (1 - share) * b + root * share * c)
        x, _ = self.warp(x, torch.ones_like(x[..., 0], dtype=torch.bool), rng)
        kept = farthest_points(x, n, start=0)
        return unit_sphere(x.gather(1, kept[..., None].expand(-1, -1, 3)))
