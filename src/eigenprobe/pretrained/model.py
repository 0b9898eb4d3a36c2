r"""One model for all shapes: a cloud to its spectral basis in one forward pass.

    points (n, 3) -> graph -> network -> Z (n, K - 1) -> Q = orthonormalise(M^{1/2} [1, Z]) -> Ritz -> refinement sweeps

`ritz=False, refine=0` is the network alone. The default takes the Ritz vectors of the smoother in the span of the `K`
columns, of the 49 diffused seeds they were made from and of 49 more diffused landmarks as guards (no guards in batches
on a GPU, where speed counts); every sweep of `refine` smooths, orthonormalises and rotates once more.

>>> model = SpectralModel.from_pretrained("surface")                             # doctest: +SKIP
>>> basis = model.encode(points, k=50)                                           # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..basis import Array, Basis
from ..cloud import Origin, check_points
from ..eigen import Rotation, Span, basis_from_span, canonical_signs, orthonormalise, widen
from ..errors import InputError
from ..extensions import KernelExtension
from ..graph.arranged import arrange
from ..networks.heat import heat_coefficients, heat_operator
from ..networks.spectral import SpectralNetwork, guards, inputs
from ..smoothers import NEIGHBOURS, build_smoother
from ..threads import limited_threads
from .prediction import Context, ModelExtension, neighbours, operator_for, predict

FEWEST = 64  # points below which a cloud says too little for the network's inputs
WHOLE = 8192  # up to here every point is part of the context; above, a farthest-point subset of CONTEXT is
CONTEXT = 4096
BATCH_POINTS = 131_072  # points that go through the network together


class SpectralModel:
    """A pretrained network and what is known about it; make one by `from_pretrained`."""

    def __init__(self, network: SpectralNetwork, facts: dict[str, Any] | None = None, name: str = "") -> None:
        self.network = network.eval().requires_grad_(False)
        self.facts, self.name = facts or {}, name
        self._fingerprint = ""

    # -- to and from disk ------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str] = "surface", *, fingerprint: str = "") -> SpectralModel:
        """A model by its name in the package, from a folder, or from the hub (`owner/name`)."""
        from .store import PACKAGED, download, packaged, read

        text = os.fspath(source)
        folder = Path(text)
        if text in packaged():
            folder = PACKAGED / text
        elif not folder.is_dir():
            if text.count("/") != 1 or text.startswith((".", "/", "~")):
                known = ", ".join(packaged()) or "none"
                raise InputError(f"expected a model in the package ({known}), a folder or a hub id, got {text!r}")
            folder = download(text)
        network, facts = read(folder)
        model = cls(network, facts, text)
        if fingerprint and model.fingerprint != fingerprint:
            raise InputError(f"expected the weights this basis was made with, got others under {text!r}")
        return model

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write `config.json`, float16 safetensors and a model card."""
        from .store import write

        write(Path(folder), self.network, self.facts)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload to the hub; `options` go to `HfApi.upload_folder`."""
        import tempfile

        from huggingface_hub import HfApi

        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            api = HfApi()
            api.create_repo(repository, exist_ok=True)
            return str(api.upload_folder(repo_id=repository, folder_path=folder, **options))

    @property
    def fingerprint(self) -> str:
        """A hash of the weights."""
        if not self._fingerprint:
            digest = hashlib.sha256()
            for name, tensor in sorted(self.network.state_dict().items()):
                digest.update(name.encode())
                digest.update(tensor.detach().to("cpu", torch.float16).contiguous().numpy().tobytes())
            self._fingerprint = digest.hexdigest()[:16]
        return self._fingerprint

    @property
    def k(self) -> int:
        """The largest basis the network predicts."""
        return self.network.config.outputs

    def to(self, device: str | torch.device) -> SpectralModel:
        self.network.to(device)
        return self

    def network_on(self, device: torch.device) -> SpectralNetwork:
        """The network, moved to where the points are."""
        if next(self.network.parameters()).device != device:
            self.network.to(device)
        return self.network

    # -- encoding --------------------------------------------------------------------------------------------------

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
        """The basis of a cloud `(n, 3)`; a list of them for a batch `(b, n, 3)`, a list of clouds or a folder.

        Parameters
        ----------
        ritz, refine
            Rotate within the predicted span; sweeps of smoothing and rotation after that.
        smoother
            Whose mass and eigenvalues: `"adaptive"` or `"symmetric"` as in `decompose`, or `"heat"`, the operator that
            the network itself looks through, which handles a batch at once. `"auto"` is `"heat"` for batches on a GPU.
        """
        if refine < 0 or (refine and not ritz):
            raise InputError(f"expected refine >= 0, and ritz=True with sweeps, got refine={refine} and ritz={ritz}")
        if smoother not in ("auto", "adaptive", "symmetric", "heat"):
            raise InputError(f"smoother must be 'auto', 'adaptive', 'symmetric' or 'heat', got {smoother!r}")
        if isinstance(points, (str, os.PathLike)):
            points = _read(Path(points))
        single = not isinstance(points, (list, tuple)) and np.ndim(points) != 3
        if not (clouds := [points] if single else list(points)):
            raise InputError("expected at least one cloud, got an empty list")
        checked = [self._check(cloud, k, device) for cloud in clouds]
        # Clouds of one size go through together.
        bases: dict[int, Basis] = {}
        for members in _by_size([x for x, _ in checked]):
            stacked = torch.stack([checked[i][0] for i in members])
            batched = smoother == "heat" or (smoother == "auto" and stacked.is_cuda and len(members) > 1)
            whole = stacked.shape[1] <= WHOLE
            run = self._heat if batched and whole else self._library
            kind = "adaptive" if smoother in ("auto", "heat") else smoother
            with limited_threads(stacked.device):
                encoded = run(stacked, k, ritz, refine, kind)
            for i, basis in zip(members, encoded, strict=True):
                bases[i] = basis.as_given(checked[i][1])
        return bases[0] if single else [bases[i] for i in range(len(clouds))]

    def _check(self, cloud: Any, k: int, device: str | torch.device | None) -> tuple[Tensor, Origin]:
        shape = tuple(np.shape(cloud)) if not isinstance(cloud, Tensor) else tuple(cloud.shape)
        if len(shape) != 2 or shape[1] != 3:
            raise InputError(f"expected points of shape (n, 3), got {shape}")
        if k > self.k:
            raise InputError(f"this model predicts at most {self.k} vectors, got k={k}")
        if shape[0] < max(FEWEST, k + 1):
            raise InputError(f"expected at least {max(FEWEST, k + 1)} points for k={k}, got {shape[0]}")
        return check_points(cloud, k, device)

    def _heat(self, x: Tensor, k: int, ritz: bool, refine: int, _: str) -> list[Basis]:
        """A batch `(b, n, 3)` at once: mass, Ritz and eigenvalues from the network's own operator."""
        began = time.perf_counter()
        found: list[Basis] = []
        for part in x.split(max(1, BATCH_POINTS // x.shape[1])):
            centre = part.mean(1, keepdim=True)
            scale = (part - centre).abs().amax((1, 2), keepdim=True).clamp_min(1e-300)
            points = ((part - centre) / scale).float()
            frames = torch.cat([centre, scale], -1)[:, 0]
            operator = heat_operator(*neighbours(points), dense=False)
            z, seen = predict(self.network_on(points.device), points, operator)
            root = operator.mass.sqrt()[..., None].double()
            first, more = torch.cat([root, root * z], -1), root * seen.crude
            if ritz:
                full = torch.cat([first, more], -1)
                q, matrix, _present = widen(first, more)
                # Columns that are absent have the quotient 1/2, far above the wanted ones.
            else:
                full = first
                q, r = orthonormalise(first, method="cholesky", check=False)
                matrix = torch.linalg.inv(r)
            values = 0.5 * (1 + (q * operator.apply(q.float()).double()).sum(1))
            for sweeps in range(refine + 1 if ritz else 0):
                if sweeps:
                    short = heat_coefficients(operator.times((1.5 * self.k,), seen.moments)[:, 0], operator.degree)
                    q = orthonormalise(operator.filter(q[..., : self.k].float(), short).double(), method="cholesky")[0]
                small = q.mT @ operator.apply(q.float()).double()
                values, rotation = torch.linalg.eigh(0.5 * (small + small.mT))
                q, values = q @ rotation, 0.5 * (1 + values)
                matrix = matrix @ rotation if not sweeps else matrix
            values = (values * operator.bound[:, None] / (operator.unit[:, None] * scale[:, 0]) ** 2).clamp_min(0)
            found += self._bases(part, points, frames, q, operator.mass.double(), values, matrix, full, k, refine)
        for basis in found:
            basis.info["seconds"] = round((time.perf_counter() - began) / len(x), 5)
        return found

    def _bases(
        self,
        x: Tensor,
        points: Tensor,
        frames: Tensor,
        q: Tensor,
        mass: Tensor,
        values: Tensor,
        matrix: Tensor,
        full: Tensor,
        k: int,
        refine: int,
    ) -> list[Basis]:
        order = values.argsort(dim=-1, stable=True)
        order = torch.cat([torch.zeros_like(order[:, :1]), order[order != 0].view(len(order), -1)], 1)[:, :k]
        q, values = q.gather(-1, order[:, None].expand(*q.shape[:2], k)), values.gather(-1, order)
        root = mass.sqrt()[..., None]
        signs = canonical_signs(q / root, mass)
        q = q * signs[:, None]
        q[..., 0], values[:, 0] = root[..., 0], 0
        # After sweeps the columns are no longer these; what is left of the vectors goes into the residual.
        matrix = matrix.gather(-1, order[:, None].expand(*matrix.shape[:2], k)) * signs[:, None]
        out = []
        for i in range(len(x)):
            residual = ((q[i] - full[i] @ matrix[i]) / root[i]).float() if refine else None
            extension = ModelExtension(self, points[i], frames[i], matrix[i], residual)
            info = {"method": "pretrained", "smoother": "heat", "dimension": 2.0, "model": self.name, "refine": refine}
            out.append(Basis(q[i], mass[i], values[i], x[i], info, extension))
        return out

    def _library(self, batch: Tensor, k: int, ritz: bool, refine: int, kind: str) -> list[Basis]:
        """Cloud by cloud: mass, Ritz and eigenvalues from the smoother that `decompose` would use."""
        return [self._one(x, k, ritz, refine, kind) for x in batch]

    def _one(self, x: Tensor, k: int, ritz: bool, refine: int, kind: Any) -> Basis:
        began = time.perf_counter()
        cloud = arrange(x, NEIGHBOURS[kind], max(k, FEWEST - 1))
        assert cloud.graph is not None
        smoother = build_smoother(cloud.graph, kind)
        parts = smoother.warn_of_parts()
        seen = cloud.graph.points.float()
        columns, context = self._columns(seen)
        assert smoother.mass is not None
        root = smoother.mass.double().sqrt()[:, None]
        full = root * torch.cat([torch.ones_like(columns[:, :1]), columns], 1).double()
        full = full if ritz else full[:, : self.k]

        def extension(rotation: Rotation) -> Any:
            if context is not None:  # the columns are functions of the context; its kernel carries what they leave out
                return KernelExtension.fit(cloud.points, rotation.vectors)
            residual = ((rotation.q - full @ rotation.matrix) / root).float() if refine else None
            frame = torch.cat([cloud.frame.centre, cloud.frame.centre.new_tensor([cloud.frame.scale])])
            return ModelExtension(self, seen, frame, rotation.matrix, residual)

        info = {"method": "pretrained", "components": parts, "model": self.name, "refine": refine}
        span = Span(full, leading=self.k if ritz else None)
        basis = basis_from_span(span, smoother, k, cloud, extension=extension, info=info, turn=ritz, sweeps=refine)
        basis.info["seconds"] = round(time.perf_counter() - began, 4)
        return basis

    def columns(self, points: Tensor) -> Tensor:
        """The network's raw columns `Z (n, K - 1)`, functions on the cloud `(n, 3)`; the constant is not among them."""
        return self._columns(points.float())[0][:, : self.k - 1]

    def span(self, points: Tensor) -> Tensor:
        """All functions `(n, K - 1 + 98)` among which `encode` looks for Ritz vectors: columns, seeds, guards."""
        return self._columns(points.float())[0]

    def inputs_alone(self, points: Tensor, extra_landmarks: int = 0) -> Tensor:
        """What `columns` would be if nothing had been learned: the diffused seeds, `(n, K - 1)`, for comparison."""
        seeds = inputs(points.float()[None], operator_for(points), None, extra_landmarks).crude[0]
        return seeds[:, : self.k - 1 + extra_landmarks]

    def _columns(self, points: Tensor) -> tuple[Tensor, Context | None]:
        """Columns, seeds and guards of one cloud; of a large one, by context attention to a subset."""
        network = self.network_on(points.device)
        if len(points) <= WHOLE:
            operator = operator_for(points)
            z, seen = predict(network, points[None], operator)
            return torch.cat([z, seen.crude, guards(points[None], operator, seen)], -1)[0], None
        from ..graph.farthest import farthest_points

        few = points[torch.as_tensor(farthest_points(points, CONTEXT, seed=0), device=points.device)]
        context = Context.of(network, few, operator_for(few))
        return context(points), context


def _by_size(clouds: Sequence[Tensor]) -> list[list[int]]:
    sizes: dict[tuple[int, torch.device], list[int]] = {}
    for i, cloud in enumerate(clouds):
        sizes.setdefault((len(cloud), cloud.device), []).append(i)
    return list(sizes.values())


def _read(path: Path) -> list[Array]:
    """The points of every shape in a folder (or of one file)."""
    from ..geometry import find_shapes, load

    return [np.asarray(load(file).vertices) for file in find_shapes([path])]
