"""Spectral coordinates for PyTorch Geometric: ``data.pos (n, d)`` -> ``data.spectral (n, k)``."""

from typing import Any

import torch
from torch_geometric.transforms import BaseTransform

from ..decomposition import decompose
from ..errors import InputError


class SpectralBasis(BaseTransform):
    """A transform that adds the spectral basis of ``data.pos``; edges are neither needed nor used.

    ``data.spectral (n, k)`` are the vectors V with ``V^T M V = I``: the constant first, eigenvalues
    ascending, the third moment of every vector positive, so that equal clouds have equal features
    whatever their pose or the order of their points. ``data.spectral_mass (n,)`` is M's diagonal,
    ``data.spectral_eigenvalues (1, k)`` stacks in a batch.

    Parameters
    ----------
    k
        How many vectors, the constant one included.
    name
        Of the attribute; mass and eigenvalues are named after it.
    options
        Of `decompose`: method, neighbours, dimension, ...

    Examples
    --------
    >>> from torch_geometric.data import Data
    >>> SpectralBasis(k=4)(Data(pos=torch.randn(300, 3))).spectral.shape
    torch.Size([300, 4])
    """

    def __init__(self, k: int = 16, name: str = "spectral", **options: Any) -> None:
        self.k, self.name, self.options = k, name, options

    def forward(self, data: Any) -> Any:
        """The same data with the new attributes.

        Parameters
        ----------
        data
            With ``pos (n, 3)``; a batch is decomposed cloud by cloud.

        Returns
        -------
        The data.

        Examples
        --------
        >>> from torch_geometric.data import Data
        >>> SpectralBasis(k=4).forward(Data(pos=torch.randn(300, 3))).spectral_mass.shape
        torch.Size([300])
        """
        pos = getattr(data, "pos", None)
        if pos is None:
            raise InputError(f"SpectralBasis needs data.pos, got {data}")
        batch = getattr(data, "batch", None)
        clouds = [pos] if batch is None else list(pos.split(torch.bincount(batch).tolist()))
        bases = decompose(clouds, self.k, **self.options)
        data[self.name] = torch.cat([basis.vectors for basis in bases])
        data[f"{self.name}_mass"] = torch.cat([basis.mass for basis in bases])
        data[f"{self.name}_eigenvalues"] = torch.stack([basis.eigenvalues for basis in bases])
        return data

    def __repr__(self) -> str:
        return f"SpectralBasis(k={self.k})"
