r"""The pretrained model on shapes it has never seen, and the controls beside it.

    mesh -> n farthest vertices -> start Q (n, K) -> feed-forward | Ritz -> |cosine| with oracle

Starts: the network's 50 columns; its inputs alone (the 49 diffused seeds, which no trained weight
has touched); the span in which `encode` rotates, columns, seeds and guards, 148 in all; and as many
polynomials of the coordinates. All share one smoother per cloud and the same Ritz rotation.
Diffusion alone brings many starts close to the closed form, so what the network has learned is seen
in the feed-forward rows. Volumes are measured against the closed form on the same points.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from eigenprobe.eigen import ritz, solve, widen
from eigenprobe.errors import InputError
from eigenprobe.geometry import is_closed, load, sample_volume
from eigenprobe.host.tables import Record
from eigenprobe.io.mesh import Array
from eigenprobe.networks.spectral import GUARDS, SEEDS, diffusion, guards
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe.pretrained.prediction import predict
from eigenprobe.smoothers import Smoother, build_smoother

from .samples import Measured, Sample, measure_files
from .unseen import Generalisation, Published, agreement_by_level, polynomials

ORDERED = (
    "network",
    "its inputs alone",
)  # starts whose own order means something: shown feed-forward too


@dataclass
class Comparison:
    """One mesh in, its rows out. The first ``volumes`` closed shapes are also sampled inside."""

    network: SpectralModel
    n: int = 1500
    k: int = 50
    seed: int = 0
    device: str = "cpu"
    volumes: int = 6

    def __post_init__(self) -> None:
        if not 2 <= self.k <= self.network.k:
            raise InputError(
                f"this model predicts at most {self.network.k} vectors, got k={self.k}"
            )
        self.network.to(self.device)

    def __call__(self, path: Path) -> Measured:
        shape = load(path)
        sample = Sample.on_surface(shape, self.n, self.k, self.seed)
        base, failed = {"shape": path.stem}, {}
        clouds: dict[str, tuple[Array, Array | None]] = {"surface": (sample.points, sample.vectors)}
        if self.volumes and shape.faces is not None and is_closed(shape.faces)[0]:
            try:
                clouds["volume"] = sample_volume(shape, self.n, self.seed, spread=True), None
                self.volumes -= 1
            except InputError as error:
                failed["inside"] = str(error)
        return [
            base | {"domain": kind} | row for kind, own in clouds.items() for row in self.rows(*own)
        ], failed

    def rows(self, points: Array, truth: Array | None = None) -> Iterable[Record]:
        """Every start and stage at ``points (n, 3)`` against ``truth (n, k)``, or against the
        closed form there.
        """
        x = torch.as_tensor(points, dtype=torch.float64, device=self.device)
        x = (x - x.mean(0)) / (x - x.mean(0)).abs().max()
        smoother = build_smoother(x)
        root = smoother.mass.sqrt()[:, None]
        optimum = (solve(smoother, self.k).vectors / root).cpu().numpy()
        truth = optimum if truth is None else truth
        yield {"start": "closed form", "stage": ""} | agreement_by_level(optimum, truth)
        for start, columns in starts(self.network, x).items():
            for stage, q in stages(root * columns, smoother, self.k):
                if stage != "feed-forward" or start in ORDERED:
                    yield {"start": start, "stage": stage} | agreement_by_level(
                        (q / root).cpu().numpy(), truth
                    )


def fingerprint(model: SpectralModel) -> str:
    """A hash of the weights as they are stored."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.cpu().half().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def run(
    paths: Sequence[str | Path], comparison: Comparison, published: Published | None = None
) -> Generalisation:
    """Measure a pretrained model on files and folders of meshes. A mesh that cannot be used is
    reported and skipped.
    """
    (rows, failed), network = measure_files(comparison, paths), comparison.network
    facts = {
        "model": network.name,
        "fingerprint": fingerprint(network),
        "n": comparison.n,
        "k": comparison.k,
    }
    facts["seed"] = comparison.seed
    return Generalisation(rows, failed, facts, published=published or {})


def starts(network: SpectralModel, x: Tensor) -> dict[str, Tensor]:
    """The columns of every start, the constant first, on points of about unit size."""
    k = network.k + SEEDS + GUARDS  # as many as `encode` rotates in
    cloud = x.float()[None]
    smoother = diffusion(cloud)
    z, seen = predict(network.network.to(x.device), cloud, smoother)
    columns = {
        "network, seeds, guards": torch.cat([z, seen.seeds, guards(cloud, smoother, seen)], -1)[0],
        "network": z[0],
        "its inputs alone": seen.seeds[0, :, : network.k - 1],
        "polynomials": polynomials(x, k)[:, 1:],
    }
    return {
        name: torch.cat([torch.ones_like(x[:, :1]), each.to(x)], 1)
        for name, each in columns.items()
    }


def stages(columns: Tensor, smoother: Smoother, k: int) -> Iterable[tuple[str, Tensor]]:
    """The start orthonormalised, then rotated, `(n, k)` each."""
    first = columns[:, :k]
    q, _ = torch.linalg.qr(first)  # any completion of dependent columns will do
    if columns.shape[1] > k:
        q, present = widen(first, columns[:, k:])
        q = q[:, present]
    yield "feed-forward", q[:, :k]
    yield "Ritz", (q @ ritz(q, smoother)[1])[:, :k]
