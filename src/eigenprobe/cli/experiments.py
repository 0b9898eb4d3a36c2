"""Commands that measure: ``evaluate surfaces|volumes`` and ``reproduce toy1d|overfit|generalisation|images``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .context import Context

Measured = Literal["direct", "network", "pretrained", "robust"]


def surfaces(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct", "robust"],  # noqa: B006 (a default for the parser; never changed)
    n: int = 4000,
    k: int = 50,
    figures: bool = True,
    context: Context,
) -> None:
    """Alignment with the cotangent oracle on meshes, with the paper's columns and figures.

    Examples:
      eigenprobe evaluate surfaces meshes/
      eigenprobe evaluate surfaces bunny.obj --methods direct pretrained --n 1500

    Args:
        shapes: mesh files, or folders of them
        methods: what to measure
        n: points of each shape (farthest points of its vertices)
        k: basis size
        figures: draw the figures
    """
    raise NotImplementedError


def volumes(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct"],  # noqa: B006 (a default for the parser; never changed)
    n: int = 4000,
    k: int = 50,
    figures: bool = True,
    context: Context,
) -> None:
    """The same on points inside closed meshes.

    Examples:
      eigenprobe evaluate volumes solid.off --n 3000

    Args:
        shapes: closed mesh files, or folders of them
        methods: what to measure
        n: interior points of each shape
        k: basis size
        figures: draw the figures
    """
    raise NotImplementedError


def toy1d(*, context: Context) -> None:
    """The interval: five learned vectors against the cosines.

    Examples:
      eigenprobe reproduce toy1d --out toy

    Args:
    """
    raise NotImplementedError


def overfit(folder: Path, *, context: Context) -> None:
    """One network a shape: the paper's single-shape table.

    Examples:
      eigenprobe reproduce overfit meshes/ --device cuda

    Args:
        folder: meshes
    """
    raise NotImplementedError


def generalisation(folder: Path, *, context: Context) -> None:
    """The pretrained model on unseen shapes, with the controls that keep it honest.

    Examples:
      eigenprobe reproduce generalisation meshes/

    Args:
        folder: meshes
    """
    raise NotImplementedError


def images(features: Path, *, context: Context) -> None:
    """Clustering in the embedding against PCA, Isomap, Laplacian Eigenmaps, t-SNE and UMAP.

    Examples:
      eigenprobe reproduce images features.npz --out images

    Args:
        features: an npz with features and labels
    """
    raise NotImplementedError
