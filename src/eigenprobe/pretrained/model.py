r"""One model for all shapes: a cloud to its spectral basis in one forward pass.

    points (n, 3) -> graph -> network -> Z (n, K - 1) -> Q = orthonormalise(M^{1/2} [1, Z]) -> Ritz -> refinement sweeps

`ritz=False, refine=0` is the network alone. The default takes the Ritz vectors of the smoother in the span of the `K`
columns, of the 49 diffused seeds they were made from and of 49 more diffused landmarks as guards (no guards in batches
on a GPU, where speed counts); every sweep of `refine` smooths, orthonormalises and rotates once more.

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
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..basis import Basis
from ..cloud import Frame, Origin, check_points, listed_clouds, points_and_faces
from ..eigen import Rotation, Span, basis_from_span, basis_of, rotate
from ..errors import InputError, extra
from ..extensions import KernelExtension
from ..extensions.pretrained import CloudMemory, ModelExtension
from ..graph.arranged import Placed, arrange
from ..host.files import Facts
from ..host.tables import html_table
from ..host.threads import limited_threads
from ..host.validation import validated
from ..networks.spectral import NEIGHBOURS as SEEN
from ..networks.spectral import SpectralNetwork, diffusion, guards, inputs, masses
from ..networks.store import fingerprint, load_network, write
from ..readers.shapes import find_shapes
from ..sampling.farthest import farthest_points
from ..shortcuts.cuts import without_short_cuts
from ..smoothers import NEIGHBOURS, build_smoother
from ..smoothers.prepared import OperatorSource
from .prediction import Surfaces, packed, predict

FEWEST = 64  # points below which a cloud says too little for the network's inputs
WHOLE = 8192  # up to here every point is part of the context; above, a farthest-point subset of CONTEXT is
CONTEXT = 4096


class SpectralModel:
    """A pretrained network and what is known about it; make one by `from_pretrained`."""

    def __init__(self, network: SpectralNetwork, facts: Facts | None = None, name: str = "") -> None:
        self.network = network.eval().requires_grad_(False)
        self.facts, self.name = facts or {}, name

    def __repr__(self) -> str:
        return f"SpectralModel({self.name!r}, k={self.k}, {self._parameters / 1e6:.2f} M parameters)"

    def _repr_html_(self) -> str:
        about = {"name": self.name, "largest basis": self.k, "parameters": self._parameters}
        words = {"device": "trained on", "skipped": "batches skipped in training"}
        facts = {words.get(name, name): value for name, value in self.facts.items()}
        plain = {name: value for name, value in facts.items() if isinstance(value, (str, int, float))}
        return html_table("SpectralModel", about | plain)

    @property
    def _parameters(self) -> int:
        return sum(p.numel() for p in self.network.parameters())

    @classmethod
    @validated
    def from_pretrained(cls, source: str | os.PathLike[str] = "surface") -> SpectralModel:
        """A model by its name in the package, from a folder, or from the hub (`owner/name`)."""
        with limited_threads(torch.device("cpu"), 1):  # many small tensors
            return cls(*load_network(source), name=os.fspath(source))

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write `config.json`, float16 safetensors and a model card."""
        write(Path(folder), self.network, self.facts)

    def push_to_hub(self, repository: str, *, token: str | None = None, **options: Any) -> str:
        """Upload what `save_pretrained` writes to the hub (`owner/name`); `options` go to `HfApi.upload_folder`."""
        import tempfile

        api = extra("huggingface_hub").HfApi(token=token)
        try:
            with tempfile.TemporaryDirectory() as folder:
                repository = api.create_repo(repository, exist_ok=True).repo_id
                write(Path(folder), self.network, self.facts, repository)
                return str(api.upload_folder(repo_id=repository, folder_path=folder, **options))
        except Exception as error:  # of the hub or of whatever carries its words
            raise InputError(f"cannot upload to {repository!r}: {error}") from error

    @property
    def fingerprint(self) -> str:
        """A hash of the weights."""
        return fingerprint(self.network)

    @property
    def k(self) -> int:
        """The largest basis the network predicts."""
        return self.network.config.outputs

    def to(self, device: str | torch.device) -> SpectralModel:
        self.network.to(device)
        return self

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
        """The basis of a cloud `(n, 3)`, a file, a mesh or an object that carries points; a list of them for a batch
        `(b, n, 3)`, a list of such or a folder.

        Parameters
        ----------
        ritz, refine
            Rotate within the predicted span; sweeps of smoothing and rotation after that.
        smoother
            Whose mass and eigenvalues: `"adaptive"` or `"symmetric"` as in `decompose`, or `"heat"`, the one that
            the network itself looks through, which handles surfaces of any sizes at once (solids, curves and clouds
            with coinciding points are taken one by one, by `"adaptive"`). `"auto"` is `"heat"` for batches on a GPU.
        """
        if refine < 0 or (refine and not ritz):
            raise InputError(f"expected refine >= 0, and ritz=True with sweeps, got refine={refine} and ritz={ritz}")
        if isinstance(points, (str, os.PathLike)) and os.path.isdir(points):
            points = list(find_shapes([points]))
        clouds = listed_clouds(points)
        read = [points_and_faces(cloud) for cloud in ([points] if clouds is None else clouds)]
        checked = [self._check(cloud, k, device) for cloud, _ in read]
        settings = (k, ritz, refine, "adaptive" if smoother in ("auto", "heat") else smoother)
        bases: dict[int, Basis] = {}
        for place in {x.device for x, _ in checked}:
            members = [i for i, (x, _) in enumerate(checked) if x.device == place]
            batched = smoother == "heat" or (smoother == "auto" and place.type != "cpu" and len(members) > 1)
            with limited_threads(place):
                for i, basis in self._encode_on_device({i: checked[i][0] for i in members}, batched, settings):
                    bases[i] = replace(basis, faces=read[i][1]).as_given(checked[i][1])
        return bases[0] if clouds is None else [bases[i] for i in range(len(read))]

    def _encode_on_device(
        self, clouds: dict[int, Tensor], batched: bool, settings: tuple[int, bool, int, Any]
    ) -> Iterator[tuple[int, Basis]]:
        """Clouds of one device by their numbers; ``batched`` ones of up to `WHOLE` points together."""
        small = [i for i, x in clouds.items() if batched and len(x) <= WHOLE]
        order = sorted(small, key=lambda i: len(clouds[i]))
        if order:
            yield from zip(order, self._together([clouds[i] for i in order], *settings), strict=True)
        for i in sorted(clouds.keys() - set(order)):
            yield i, self._one(clouds[i], *settings)

    def _check(self, cloud: Any, k: int, device: str | torch.device | None) -> tuple[Tensor, Origin]:
        shape = tuple(np.shape(cloud)) if not isinstance(cloud, Tensor) else tuple(cloud.shape)
        if len(shape) != 2 or shape[1] != 3:
            raise InputError(f"expected points of shape (n, 3), got {shape}")
        if k > self.k:
            raise InputError(f"this model predicts at most {self.k} vectors, got k={k}")
        if shape[0] < max(FEWEST, k + 1):
            raise InputError(f"expected at least {max(FEWEST, k + 1)} points for k={k}, got {shape[0]}")
        x, origin = check_points(cloud, k, device)
        Frame.of(x)  # sizes that no smoother can hold are refused before any cloud of a batch is encoded
        return x, origin

    def _together(self, clouds: list[Tensor], k: int, ritz: bool, refine: int, kind: Any) -> Iterator[Basis]:
        """Clouds `(n_i, 3)` of ascending sizes, many in one forward pass: mass, Ritz and eigenvalues from the smoother
        that the network looks through.

        That smoother is one of surfaces: solids, curves and clouds with coinciding points are encoded by `_one`.
        """
        for run in packed([len(x) for x in clouds]):
            batch, plain = Surfaces.of(clouds[run])
            bases = iter(()) if batch is None else self._turned(batch, k, ritz, refine)
            for cloud, ok in zip(clouds[run], plain, strict=True):
                yield next(bases) if ok else self._one(cloud, k, ritz, refine, kind)

    def _turned(self, batch: Surfaces, k: int, ritz: bool, refine: int) -> Iterator[Basis]:
        """The bases of surfaces, padded to one size."""
        began, smoother, each = time.perf_counter(), batch.smoother, batch.graph.each
        z, seen = predict(self.network.to(smoother.device), batch.points, smoother)
        columns = torch.cat([torch.ones_like(z[..., :1]), z, *([seen.seeds] if ritz else [])], -1)
        span = Span(masses(smoother).double().sqrt()[..., None] * columns, leading=self.k)
        padded = replace(smoother, mass=each.padded(smoother.mass, 1.0))  # padding is divided by it as well
        found = rotate(span, padded, k, turn=ritz, sweeps=refine)
        seconds = (time.perf_counter() - began) / len(z)
        for i, (n, count) in enumerate(
            zip(each.sizes, each.parts(batch.graph.truncate(SEEN).components()), strict=True)
        ):
            cloud = Placed(batch.given[i], batch.frames[i])
            info = self._info(refine) | {"smoother": "heat", "components": count, "seconds": round(seconds, 5)}
            extension = self._extension(batch.points[i, :n], cloud.frame, span.columns[i, :n], refine)
            basis = basis_of(found.of(i, n), smoother, cloud, extension=extension, info=info)
            yield replace(basis, source=OperatorSource(make=partial(Surfaces.operator, batch.given[i])))

    def _one(self, x: Tensor, k: int, ritz: bool, refine: int, kind: Any) -> Basis:
        """One cloud: mass, Ritz and eigenvalues from the smoother that `decompose` would use."""
        began = time.perf_counter()
        cloud = arrange(x, NEIGHBOURS[kind], max(k, FEWEST - 1))
        if float(cloud.graph.distances[:, -1].median()) < 8 * torch.finfo(torch.float32).eps:
            raise InputError("most points are nearer to each other than a model can see: encode far parts one by one")
        dimension = None
        if kind == "adaptive":
            cloud, dimension = without_short_cuts(cloud)
        smoother = build_smoother(cloud.graph, kind, dimension=dimension)
        count = smoother.warn_of_parts()
        seen = cloud.graph.points.float()
        columns, context = self._columns(seen)
        root = smoother.mass.double().sqrt()[:, None]
        full = root * torch.cat([torch.ones_like(columns[:, :1]), columns], 1).double()
        span = Span(full if ritz else full[:, : self.k], leading=self.k)
        extension = self._extension(seen, cloud.frame, span.columns, refine)
        if context:  # the columns are functions of a subset; the kernel carries what they leave out

            def extension(rotation: Rotation) -> Any:
                return KernelExtension(cloud.points, rotation.vectors)

        info = self._info(refine) | {"components": count}
        basis = basis_from_span(span, smoother, k, cloud, extension=extension, info=info, turn=ritz, sweeps=refine)
        basis.info["seconds"] = round(time.perf_counter() - began, 4)
        return basis

    def _info(self, refine: int) -> Facts:
        return {"method": "pretrained", "model": self.name, "refine": refine}

    def _extension(self, seen: Tensor, frame: Frame, columns: Tensor, refine: int) -> Any:
        """Values at new points of a rotation of the span's columns; what sweeps added to them is kept apart."""

        def make(rotation: Rotation) -> ModelExtension:
            left = (rotation.q - columns @ rotation.matrix) / rotation.mass.sqrt()[:, None] if refine else None
            residual = None if left is None else left.float()
            return ModelExtension(self.network, self.name, seen, frame, rotation.matrix, residual)

        return make

    def columns(self, points: Tensor) -> Tensor:
        """The network's raw columns `Z (n, K - 1)`, functions on the cloud `(n, 3)`; the constant is not among them."""
        return self.span(points)[:, : self.k - 1]

    def span(self, points: Tensor) -> Tensor:
        """All functions `(n, K - 1 + 98)` among which `encode` looks for Ritz vectors: columns, seeds, guards."""
        return self._columns(points.float())[0]

    def inputs_alone(self, points: Tensor, extra_landmarks: int = 0) -> Tensor:
        """What `columns` would be if nothing had been learned: the diffused seeds, `(n, K - 1)`, for comparison."""
        seeds = inputs(points.float()[None], diffusion(points[None]), None, extra_landmarks).seeds[0]
        return seeds[:, : self.k - 1 + extra_landmarks]

    def _columns(self, points: Tensor) -> tuple[Tensor, bool]:
        """Columns, seeds and guards of one cloud; of a large one by attention to a subset, and whether it was."""
        network = self.network.to(points.device)
        if len(points) <= WHOLE:
            smoother = diffusion(points[None])
            z, seen = predict(network, points[None], smoother)
            return torch.cat([z, seen.seeds, guards(points[None], smoother, seen)], -1)[0], False
        context = points[farthest_points(points, CONTEXT, seed=0)]
        return CloudMemory.of(network, context, diffusion(context[None]))(points), True
