"""Clouds of real meshes for training: new points of their faces in every batch.

    npz: NAME/v (n, 3), NAME/f (m, 3)  ->  clouds (b, n, 3) in the unit sphere

Points are drawn evenly on the faces, four for each that is kept; the shape is scaled along three
random axes, twisted about one of them, and turned; farthest points are kept.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from eigenprobe.geometry import farthest_points

from ..shapes import unit_sphere
from ..shapes.meshes import read_meshes

SCALE = 0.15  # standard deviation of the log of a scale
TWIST = 0.3  # of the angle over the radius
DRAWN = 4  # points on the faces for each that is kept
AHEAD = 8  # steps whose clouds are drawn at once: farthest points of many cost hardly more


class MeshClouds:
    """Clouds of the meshes of a file, on a device."""

    def __init__(self, path: Path, seed: int = 0) -> None:
        corners = [np.asarray(v, np.float32)[f] for v, f in read_meshes(path)]
        self.seed, self.kept = seed, ((-1, 0, 0), torch.empty(0))
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

        def uniform(*shape: int) -> Tensor:
            return torch.rand(shape, generator=g, device=device)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=g, device=device)

        chosen = torch.randint(len(self), (count,), generator=g, device=device)
        low, high = self.ends[chosen, None], self.ends[chosen + 1, None]
        where = low + (high - low) * uniform(count, DRAWN * n).double()
        faces = torch.searchsorted(self.reached, where).clamp_max(len(self.corners) - 1)
        a, b, c = self.corners[faces].unbind(2)  # (count, 4 n, 3) each
        root, share = uniform(count, DRAWN * n, 1).sqrt(), uniform(count, DRAWN * n, 1)
        x = unit_sphere((1 - root) * a + root * (1 - share) * b + root * share * c)
        axes, turn = (torch.linalg.qr(normal(count, 3, 3)).Q for _ in range(2))
        x = (x @ axes) * (SCALE * normal(count, 1, 3)).exp()
        angle = TWIST * normal(count, 1) * x[..., 2]
        cos, sin = angle.cos(), angle.sin()
        twisted = (cos * x[..., 0] - sin * x[..., 1], sin * x[..., 0] + cos * x[..., 1], x[..., 2])
        x = torch.stack(twisted, -1) @ turn
        kept = farthest_points(x, n, start=0)
        return unit_sphere(x.gather(1, kept[..., None].expand(-1, -1, 3)))
