r"""One model for all shapes: a cloud to its spectral basis in one forward pass.

    points (n, 3) -> graph -> network -> Z (n, K - 1)
                  -> Q = orthonormalise(M^{1/2} [1, Z]) -> Ritz -> refinement sweeps

`ritz=False, refine=0` is the network alone. The default takes the Ritz vectors of the smoother in
the span of the `K` columns, of the 49 diffused seeds they were made from and of 49 more diffused
landmarks as guards (no guards in batches on a GPU, where speed counts); every sweep of `refine`
smooths, orthonormalises and rotates once more.

>>> model = SpectralModel.from_pretrained("surface")                             # doctest: +SKIP
>>> basis = model.encode(points, k=50)                                           # doctest: +SKIP
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..basis import Basis
from ..cloud.farthest import farthest_points
from ..eigen import basis_of, rotate
from ..errors import InputError
from ..extensions import KernelExtension
from ..host.files import Facts
from ..host.threads import limited_threads
from ..host.validation import validated
from ..io.shapes import find_shapes
from ..networks.spectral import SpectralNetwork, diffusion, guards, masses
from ..networks.store import load_network, write
from ..points import Frame, Origin, check_points, listed_clouds, points_and_faces
from ..smoothers.prepared import OperatorSource
from .prediction import FEWEST, WHOLE, Batch, batches, predict, surface_operator

CONTEXT = 4096  # farthest points of a cloud of more than `WHOLE` that go through the network


class EncodeOptions(TypedDict, total=False):
    """The options of `SpectralModel.encode`."""

    ritz: bool
    refine: int
    smoother: Literal["auto", "adaptive", "symmetric", "heat"]
    device: str | torch.device | None


class SpectralModel:
    """A pretrained network and what is known about it; make one by `from_pretrained`.

    Parameters
    ----------
    network
        In evaluation mode from here on.
    facts, name
        How it was trained, and what it is called.

    Examples
    --------
    >>> model = SpectralModel.from_pretrained("surface")
    >>> cube = np.random.default_rng(0).normal(size=(300, 3))
    >>> sphere = cube / np.linalg.norm(cube, axis=1, keepdims=True)
    >>> model.encode(sphere, k=9).vectors.shape
    (300, 9)
    """

    def __init__(
        self, network: SpectralNetwork, facts: Facts | None = None, name: str = ""
    ) -> None:
        self.network = network.eval().requires_grad_(False)
        self.facts, self.name = facts or {}, name

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.network.parameters())
        size = f"{count / 1e6:.2f} M parameters"
        return f"SpectralModel({self.name!r}, k={self.k}, {size})"

    @classmethod
    @validated
    def from_pretrained(cls, source: str | os.PathLike[str] = "surface") -> SpectralModel:
        """A model by its name in the package, from a folder, or from the hub (`owner/name`).

        Parameters
        ----------
        source
            `"surface"`, the model that comes with the package; a folder that `save_pretrained`
            wrote; or a model on the hub.

        Returns
        -------
        SpectralModel
            Ready to `encode`, on the processor.

        Examples
        --------
        >>> SpectralModel.from_pretrained("surface").k
        50
        """
        with limited_threads(torch.device("cpu"), 1):  # many small tensors
            return cls(*load_network(source), name=os.fspath(source))

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write `config.json`, float16 safetensors and a model card.

        Parameters
        ----------
        folder
            Which is made; `from_pretrained` takes it.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     SpectralModel.from_pretrained("surface").save_pretrained(f"{folder}/mine")
        ...     SpectralModel.from_pretrained(f"{folder}/mine").k
        50
        """
        write(Path(folder), self.network, self.facts)

    @property
    def k(self) -> int:
        """The largest basis the network predicts."""
        return self.network.config.outputs

    def to(self, device: str | torch.device) -> SpectralModel:
        """The model itself, moved.

        Parameters
        ----------
        device
            Where it lies from here on.

        Returns
        -------
        SpectralModel

        Examples
        --------
        >>> SpectralModel.from_pretrained("surface").to("cpu").k
        50
        """
        self.network.to(device)
        return self

    @overload
    def encode(
        self, points: NDArray[Any], k: int = 50, **options: Unpack[EncodeOptions]
    ) -> Basis[NDArray[Any]]: ...

    @overload
    def encode(
        self, points: Tensor, k: int = 50, **options: Unpack[EncodeOptions]
    ) -> Basis[Tensor]: ...

    @overload
    def encode(self, points: Any, k: int = 50, **options: Unpack[EncodeOptions]) -> Any: ...

    @validated
    def encode(
        self,
        points: Any,
        k: int = 50,
        ritz: bool = True,
        refine: int = 0,
        *,
        smoother: Literal["auto", "adaptive", "symmetric", "heat"] = "auto",
        device: str | torch.device | None = None,
    ) -> Any:
        """The basis of a cloud `(n, 3)`, a file, a mesh or an object that carries points; a list of
        them for a batch `(b, n, 3)`, a list of such or a folder.

        Parameters
        ----------
        points
            What to encode, as above; `(n, 3)` with 64 points or more.
        k
            How many vectors, at most `model.k`.
        ritz, refine
            Rotate within the predicted span; sweeps of smoothing and rotation after that.
        smoother
            Whose mass and eigenvalues: `"adaptive"` or `"symmetric"` as in `decompose`, or
            `"heat"`, the one that the network itself looks through, which handles surfaces of any
            sizes at once (solids, curves and clouds with coinciding points are taken one by one, by
            `"adaptive"`). `"auto"` is `"heat"` for batches on a GPU.
        device
            Where to compute; by default where the (first) points are.

        Returns
        -------
        Basis or list of Basis
            Arrays of the kind, precision and device that came in.

        Examples
        --------
        >>> model = SpectralModel.from_pretrained("surface")
        >>> points = np.random.default_rng(0).normal(size=(300, 3))
        >>> sphere = points / np.linalg.norm(points, axis=1, keepdims=True)
        >>> [basis.k for basis in model.encode([sphere, sphere[:200]], k=9)]
        [9, 9]
        """
        if refine < 0 or (refine and not ritz):
            raise InputError(
                "expected refine >= 0, and ritz=True with sweeps, "
                f"got refine={refine} and ritz={ritz}"
            )
        if isinstance(points, (str, os.PathLike)) and os.path.isdir(points):
            points = list(find_shapes([points]))
        clouds = listed_clouds(points)
        read = [points_and_faces(cloud) for cloud in ([points] if clouds is None else clouds)]
        checked = [self._check(cloud, k, device) for cloud, _ in read]
        where = checked[0][0].device
        own = {i: x.to(where) for i, (x, _) in enumerate(checked)}
        kind = "adaptive" if smoother in ("auto", "heat") else smoother
        bases: dict[int, Basis] = {}
        many = smoother == "auto" and where.type != "cpu" and len(own) > 1
        began = time.perf_counter()
        with limited_threads(where):
            for members, batch in batches(own, k, kind, smoother == "heat" or many):
                found = list(self._bases(batch, k, ritz, refine))
                seconds = round((time.perf_counter() - began) / len(found), 5)
                for i, basis in zip(members, found, strict=True):
                    basis.info["seconds"] = seconds
                    bases[i] = replace(basis, faces=read[i][1]).as_given(checked[i][1])
                began = time.perf_counter()
        return bases[0] if clouds is None else [bases[i] for i in range(len(read))]

    def _check(
        self, cloud: Any, k: int, device: str | torch.device | None
    ) -> tuple[Tensor, Origin]:
        shape = tuple(np.shape(cloud))
        if len(shape) != 2 or shape[1] != 3:
            raise InputError(f"expected points of shape (n, 3), got {shape}")
        if k > self.k:
            raise InputError(f"this model predicts at most {self.k} vectors, got k={k}")
        if shape[0] < max(FEWEST, k + 1):
            raise InputError(
                f"expected at least {max(FEWEST, k + 1)} points for k={k}, got {shape[0]}"
            )
        x, origin = check_points(cloud, k, device)
        Frame.of(x)  # sizes that no smoother can hold are refused before any cloud is encoded
        return x, origin

    def _bases(self, batch: Batch, k: int, ritz: bool, refine: int) -> Iterator[Basis]:
        """The bases of a batch, one after the other."""
        operator, columns = batch.operator, self._columns(batch, ritz)
        span = masses(operator).double().sqrt()[..., None] * columns
        # Padding is divided by the mass as well.
        padded = replace(operator, mass=operator.each.padded(operator.mass, 1.0))
        found = rotate(span, padded, k, leading=self.k, turn=ritz, sweeps=refine)
        info = {"method": "pretrained", "model": self.name, "refine": refine}
        info |= {"smoother": "heat"} if batch.stacked else {}
        for i, (cloud, n) in enumerate(zip(batch.clouds, operator.each.sizes, strict=True)):
            pairs, facts = found.of(i, n), info | {"components": batch.components[i]}
            kernel = KernelExtension(cloud.points, pairs.vectors)
            basis = basis_of(pairs, operator, cloud, extension=kernel, info=facts)
            if batch.stacked:
                make = partial(surface_operator, cloud.given)
                basis = replace(basis, source=OperatorSource(make=make))
            yield basis

    def _columns(self, batch: Batch, ritz: bool) -> Tensor:
        """The constant, the network's columns and, to rotate in, the seeds and guards, `(b, n, p)`;
        of a large cloud those of a subset, extended by its kernel.
        """
        points, context = batch.points, batch.points
        large = points.shape[1] > WHOLE
        if large:
            context = points[:, farthest_points(points[0], CONTEXT, seed=0)]
        smoother = batch.operator if batch.stacked else diffusion(context)
        z, seen = predict(self.network.to(points.device), context, smoother)
        if ritz:
            z = torch.cat([z, seen.seeds], -1)
        if ritz and not batch.stacked:
            z = torch.cat([z, guards(context, smoother, seen)], -1)
        z = KernelExtension(context[0], z[0])(points[0])[None] if large else z
        return torch.cat([torch.ones_like(z[..., :1]), z], -1)
