r"""The paper's generalisation table: one pretrained model on shapes it has never seen, and the controls beside it.

    mesh -> n farthest vertices -> start Q (n, K) -> feed-forward | Ritz | 1 sweep | 3 sweeps -> |cosine| with oracle

Starts: the network's 50 columns; its inputs alone (the 49 diffused seeds, which no trained weight has touched); the
span in which `encode` rotates, columns, seeds and guards, 148 in all; and controls of 148 columns each: diffused seeds
with more landmarks, polynomials, random Fourier features, random vectors. All share one smoother a cloud, the same Ritz
rotation and the same sweeps. Diffusion or refinement alone brings many starts close to the closed form, so what the
network has learned is seen in the feed-forward rows. Volumes are measured against the closed form on the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..decomposition import spectrum_of
from ..eigen.refine import ritz, sweep
from ..eigen.span import orthonormalise
from ..errors import InputError, RankError
from ..evaluation.alignment import compare_vectors
from ..evaluation.tables import markdown, write
from ..geometry import farthest_points, find_shapes, is_closed, load, oracle, sample_volume
from ..networks.spectral import GUARDS, SEEDS
from ..pretrained.model import SpectralModel
from ..pretrained.prediction import widen
from ..progress import track
from ..smoothers.smoother import Smoother, build_smoother

Array = NDArray[Any]
LEVELS = tuple(range(5, 55, 5))
PAPER = {
    "MPZ14": (0.735, 0.612, 0.526, 0.473, 0.429, 0.393, 0.365, 0.341, 0.320, 0.301),
    "SHREC'07": (0.729, 0.610, 0.535, 0.480, 0.438, 0.403, 0.374, 0.349, 0.327, 0.308),
}
STARTS = (
    "network, seeds, guards",
    "network",
    "its inputs alone",
    "diffused seeds, 148",
    "polynomials",
    "Fourier features",
    "random vectors",
)
STAGES = ("feed-forward", "Ritz", "1 sweep", "3 sweeps")


@dataclass(frozen=True)
class Generalisation:
    """Rows: one a shape, start and stage (and one a shape for the closed form)."""

    rows: list[dict[str, Any]]
    failed: dict[str, str]
    facts: dict[str, Any]

    def means(self, domain: str = "surface") -> list[dict[str, Any]]:
        """Mean over the shapes, one row a start and stage, the paper's rows first."""
        chosen = [row for row in self.rows if row["domain"] == domain]
        table: list[dict[str, Any]] = []
        if domain == "surface":
            for name, values in PAPER.items():
                printed = {f"k<={k}": v for k, v in zip(LEVELS, values, strict=True) if f"k<={k}" in chosen[0]}
                table.append({"start": f"the paper, {name}", "stage": "feed-forward", **printed})
        for start, stage in dict.fromkeys((row["start"], row["stage"]) for row in chosen):
            group = [row for row in chosen if (row["start"], row["stage"]) == (start, stage)]
            names = [name for name in group[0] if name.startswith(("k<=", "subspace"))]
            table.append(
                {"start": start, "stage": stage} | {n: float(np.mean([row[n] for row in group])) for n in names}
            )
        return table

    def groups(self) -> list[dict[str, Any]]:
        """The surfaces by collection (the folder, or what stands before ``__`` in the file name)."""
        shown = {
            ("network", "feed-forward"),
            ("network", "Ritz"),
            ("its inputs alone", "feed-forward"),
            ("closed form", ""),
        }
        table = []
        surfaces = [row for row in self.rows if row["domain"] == "surface"]
        for group in dict.fromkeys(row["group"] for row in surfaces):
            for start, stage in dict.fromkeys((row["start"], row["stage"]) for row in surfaces):
                if (start, stage) in shown:
                    members = [r for r in surfaces if (r["group"], r["start"], r["stage"]) == (group, start, stage)]
                    levels = [f"k<={level}" for level in (5, 10, 20, 50) if f"k<={level}" in members[0]]
                    means = {name: float(np.mean([row[name] for row in members])) for name in levels}
                    table.append({"collection": group, "shapes": len(members), "start": start, "stage": stage} | means)
        return table

    def markdown(self) -> str:
        parts = []
        for domain in dict.fromkeys(row["domain"] for row in self.rows):
            count = len({row["shape"] for row in self.rows if row["domain"] == domain})
            against = "the mesh oracle" if domain == "surface" else "the closed form on the same points"
            parts.append(f"{count} unseen {domain}s, n={self.facts['n']}, |cosine| with {against}, mean over i <= k\n")
            parts.append(markdown(self.means(domain)))
            parts.append("")
        if len({row["group"] for row in self.rows}) > 1:
            parts += ["By collection\n", markdown(self.groups()), ""]
        return "\n".join(parts)


def run(
    shapes: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    model: str | SpectralModel = "surface",
    n: int = 1500,
    k: int = 50,
    seed: int = 0,
    device: str = "cpu",
    volumes: int = 6,
    figures: bool = True,
    progress: Callable[..., Iterable[Any]] = track,
) -> Generalisation:
    """Measure a pretrained model on meshes (files or folders of them); tables and figures go to ``out`` where given.

    ``volumes`` closed shapes are also sampled inside. A mesh that cannot be used is reported and skipped.
    """
    network = SpectralModel.from_pretrained(model) if isinstance(model, str) else model
    if not 2 <= k <= network.k:
        raise InputError(f"this model predicts at most {network.k} vectors, got k={k}")
    files = find_shapes([Path(p) for p in ([shapes] if isinstance(shapes, (str, Path)) else shapes)])
    network.to(device)
    rows: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    left = volumes
    for path in progress(files, "measuring", len(files)):
        try:
            shape = load(path)
            if shape.faces is None:
                raise InputError("expected a mesh, got a point cloud")
            reference = oracle(shape.vertices, shape.faces, k)
            index = np.asarray(farthest_points(np.asarray(shape.vertices), n, seed=seed))
            points = np.asarray(shape.vertices)[index]
            rows += _measure(network, points, np.asarray(reference.vectors)[index], path, "surface", k, seed, device)
            if left and is_closed(shape.faces)[0]:
                inside = sample_volume(shape, n, seed, spread=True)
                rows += _measure(network, inside, None, path, "volume", k, seed, device)
                left -= 1
        except InputError as error:
            failed[path.name] = str(error)
    if not rows:
        raise InputError("none of the shapes could be measured: " + "; ".join(f"{a}: {b}" for a, b in failed.items()))
    facts = {"model": network.name, "fingerprint": network.fingerprint, "n": n, "k": k, "seed": seed, "failed": failed}
    result = Generalisation(rows, failed, facts)
    if out is not None:
        write(out, "generalisation", rows, text=result.markdown(), facts=facts)
        if figures:
            draw(network, files[: min(3, len(files))], Path(out), n, seed)
    return result


def _measure(
    network: SpectralModel,
    points: Array,
    reference: Array | None,
    path: Path,
    domain: str,
    k: int,
    seed: int,
    device: str,
) -> list[dict[str, Any]]:
    x = torch.as_tensor(points, dtype=torch.float64, device=device)
    x = (x - x.mean(0)) / (x - x.mean(0)).abs().max()
    smoother = build_smoother(x)
    assert smoother.mass is not None
    root = smoother.mass.sqrt()[:, None]
    optimum = (spectrum_of(smoother, k)[0] / root).cpu().numpy()
    truth = optimum if reference is None else reference
    group = path.stem.split("__")[0] if "__" in path.stem else path.parent.name
    base = {"shape": path.stem, "group": group, "domain": domain}
    rows = [base | {"start": "closed form", "stage": ""} | _agreement(optimum, truth, k)]
    generator = torch.Generator().manual_seed(seed)
    for start in STARTS:
        columns = starts(start, network, x, smoother, generator)
        for stage, q in stages(root * columns, smoother, k):
            if stage != "feed-forward" or start in ("network", "its inputs alone"):
                vectors = (q / root).cpu().numpy()
                rows.append(base | {"start": start, "stage": stage} | _agreement(vectors, truth, k))
    return rows


def _agreement(vectors: Array, truth: Array, k: int) -> dict[str, float]:
    alignment = compare_vectors(vectors[:, :k], truth[:, :k], np.zeros(k), np.zeros(k))
    cosines = {f"k<={level}": alignment.cosine(level) for level in LEVELS if level <= k}
    return cosines | {"subspace 10": alignment.subspace(min(10, k))}


def starts(name: str, network: SpectralModel, x: Tensor, smoother: Smoother, generator: torch.Generator) -> Tensor:
    """Columns of one start, the constant first, on points of about unit size."""
    n, k = len(x), network.k + SEEDS + GUARDS  # as many as `encode` rotates in
    if name == "network, seeds, guards":
        columns = network.span(x).to(x.dtype)
    elif name == "network":
        columns = network.columns(x).to(x.dtype)
    elif name == "its inputs alone":
        columns = network.inputs_alone(x).to(x.dtype)
    elif name == "diffused seeds, 148":
        columns = network.inputs_alone(x, k - 1 - SEEDS).to(x.dtype)
    elif name == "polynomials":
        powers = sorted(((a, b, c) for a in range(9) for b in range(9) for c in range(9) if a + b + c < 9), key=sum)
        return torch.stack([x[:, 0] ** a * x[:, 1] ** b * x[:, 2] ** c for a, b, c in powers], 1)[:, :k]
    elif name == "Fourier features":
        waves = 3 * torch.randn(3, k - 1, generator=generator).to(x)
        phase = 2 * torch.pi * torch.rand(k - 1, generator=generator).to(x)
        columns = torch.cos(x @ waves + phase)
    elif name == "random vectors":
        columns = torch.randn(n, k - 1, generator=generator).to(x)
    else:
        raise InputError(f"start must be one of {', '.join(STARTS)}, got {name!r}")
    return torch.cat([torch.ones(n, 1, device=x.device, dtype=x.dtype), columns], 1)


def stages(columns: Tensor, smoother: Smoother, k: int) -> Iterable[tuple[str, Tensor]]:
    """The start orthonormalised, then rotated, then after one and after three sweeps, `(n, k)` each."""
    first = columns[:, :k]
    try:
        q, _ = orthonormalise(first)
    except RankError:  # polynomials on an algebraic surface: any completion of their span will do
        first = first + 1e-7 * first.norm() / len(first) * torch.randn_like(first)
        q, _ = torch.linalg.qr(first)
    if columns.shape[1] > k:
        q, _, present = widen(first, columns[:, k:])
        q = q[:, present]
    yield "feed-forward", q[:, :k]
    q, _ = ritz(q, smoother)
    yield "Ritz", q[:, :k]
    for count in (1, 2, 3):
        q, _ = sweep(q, smoother)
        if count != 2:
            yield f"{count} sweep{'s' if count > 1 else ''}", q[:, :k]


def draw(network: SpectralModel, files: Sequence[Path], folder: Path, n: int, seed: int) -> list[Path]:
    """`V` and `xyz` rebuilt from few vectors, on unseen surfaces and inside the closed ones."""
    from ..viz import figures

    written = []
    for path in files:
        shape = load(path)
        index = np.asarray(farthest_points(np.asarray(shape.vertices), n, seed=seed))
        clouds = {"surface": np.asarray(shape.vertices)[index]}
        if shape.faces is not None and is_closed(shape.faces)[0]:
            clouds["volume"] = sample_volume(shape, n, seed, spread=True)
        for kind, points in clouds.items():
            basis = network.encode(points, k=network.k)
            target = folder / f"{path.stem}_{kind}.png"
            figures.eigenfunctions(points, basis.vectors, columns=10, eigenvalues=basis.eigenvalues, path=target)
            rebuilt = {
                k: basis.truncate(k).reconstruct(basis.truncate(k).project(points))
                for k in (5, 10, 20, 50)
                if k <= basis.k
            }
            filtered = folder / f"{path.stem}_{kind}_xyz.png"
            figures.reconstructions(points, {"pretrained": rebuilt}, path=filtered)
            written += [target, filtered]
    return written
