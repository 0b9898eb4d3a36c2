"""A task that uses the basis: a small diffusion network tells classes of shapes apart, by three operators.

    python -m benchmarks.classify MESHES... [--n 1000] [--k 40] [--steps 150] [--seeds 5]

    inputs   heat kernel signatures at 16 times (n, 16)
    block    x + MLP(x, V exp(-lambda t) V^T M x), a learned time t for each channel (DiffusionNet, no gradients)
    output   mean by mass, then a linear layer to the classes

The basis is that of the mesh (cotangent operator, read off at points), of robust_laplacian and of `decompose` on the
same ``n`` farthest vertices without faces. Eigenvalues are divided by the mean of the first ten, so that size plays no
part. Classes are those of `benchmarks.retrieval` with at least two shapes; every shape is tested once by seed, in one
of two halves that are held out in turn. A network is also tested with the bases of the other operators.
"""

from __future__ import annotations

import statistics
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import eigenprobe as ep
from benchmarks.record import facts, over_meshes, write
from benchmarks.retrieval import kind, robust
from eigenprobe.host.tables import markdown
from eigenprobe.readers.shapes import find_shapes

WIDTH, BLOCKS, TIMES, PARTS, SMALLEST = 32, 2, 16, 2, 2
Bases = tuple[Tensor, Tensor, Tensor]  # vectors (s, n, k), eigenvalues (s, k), mass (s, n)


class Block(nn.Module):
    """Diffusion for a learned time by channel, then a perceptron of both, added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.time = nn.Parameter(torch.linspace(-3, 1, width))
        self.mlp = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x: Tensor, bases: Bases) -> Tensor:
        vectors, values, mass = bases
        spectrum = vectors.mT @ (mass.unsqueeze(-1) * x)  # (s, k, c)
        diffused = vectors @ (torch.exp(-values.unsqueeze(-1) * self.time.exp()) * spectrum)
        return x + self.mlp(torch.cat([x, diffused], -1))


class Classifier(nn.Module):
    """Signatures, blocks, a mean over the surface, class scores ``(s, classes)``."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(TIMES, WIDTH), nn.Linear(WIDTH, classes)
        self.blocks = nn.ModuleList([Block(WIDTH) for _ in range(BLOCKS)])

    def forward(self, bases: Bases) -> Tensor:
        x = self.first(signatures(bases))
        for block in self.blocks:
            x = block(x, bases)
        return self.last((bases[2].unsqueeze(-1) * x).sum(1))


def signatures(bases: Bases) -> Tensor:
    """Logarithms of the heat kernel's diagonal ``(s, n, TIMES)`` without the constant."""
    vectors, values, _ = bases
    times = torch.logspace(-1, 1, TIMES, dtype=values.dtype)
    kernel = vectors[..., 1:].square() @ torch.exp(-values[:, 1:, None] * times)
    return kernel.clamp_min(1e-6).log()


def stacked(bases: list[ep.Basis]) -> Bases:
    """Arrays of all shapes; eigenvalues relative to the mean of the first ten."""
    vectors = torch.stack([torch.as_tensor(np.asarray(b.vectors), dtype=torch.float32) for b in bases])
    values = torch.stack([torch.as_tensor(np.asarray(b.eigenvalues), dtype=torch.float32) for b in bases])
    mass = torch.stack([torch.as_tensor(np.asarray(b.mass), dtype=torch.float32) for b in bases])
    return vectors, values / values[:, 1:11].mean(1, keepdim=True), mass / mass.sum(1, keepdim=True)


def trained(bases: Bases, labels: Tensor, steps: int, seed: int) -> Classifier:
    """A network fitted to all shapes given at once."""
    torch.manual_seed(seed)
    network = Classifier(int(labels.max()) + 1)
    optimiser = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=0.01)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(network(bases), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return network.eval()


def folds(labels: Tensor, seed: int) -> Tensor:
    """A part ``0 .. PARTS - 1`` for each shape, every class spread over the parts."""
    generator, part = torch.Generator().manual_seed(seed), torch.zeros(len(labels), dtype=torch.long)
    start = 0
    for name in labels.unique():
        rows = (labels == name).nonzero()[:, 0]
        rows = rows[torch.randperm(len(rows), generator=generator)]
        part[rows] = (torch.arange(len(rows)) + start) % PARTS
        start += len(rows)
    return part


def accuracies(bases: dict[str, Bases], labels: Tensor, steps: int, seeds: int) -> list[dict[str, Any]]:
    """The share of shapes that is told right: by the operator of the training and of the test, over the seeds."""
    right: dict[tuple[str, str], list[float]] = {(a, b): [] for a in bases for b in bases}
    for seed in range(seeds):
        part = folds(labels, seed)
        hits = dict.fromkeys(right, 0)
        for held in range(PARTS):
            for a, given in bases.items():
                network = trained(tuple(x[part != held] for x in given), labels[part != held], steps, seed)  # type: ignore[arg-type]
                for b, other in bases.items():
                    with torch.no_grad():
                        found = network(tuple(x[part == held] for x in other)).argmax(1)
                    hits[a, b] += int((found == labels[part == held]).sum())
        for key, count in hits.items():
            right[key].append(count / len(labels))
    return [
        {"trained with": a} | {f"tested with {b}": statistics.mean(right[a, b]) for b in bases}
        | {"spread over seeds": max(right[a, a]) - min(right[a, a])}
        for a in bases
    ]  # fmt: skip


def main() -> None:
    options = over_meshes(__doc__, n=1000, k=40, steps=150, seeds=5).parse_args()
    warnings.simplefilter("ignore")
    shapes = [(path, kind(path.stem)) for path in find_shapes(options.meshes)]
    count = {name: sum(name == other for _, other in shapes) for _, name in shapes}
    bases: dict[str, list[ep.Basis]] = {"mesh": [], "robust_laplacian": [], "eigenprobe": []}
    kinds = []
    for path, name in shapes:
        shape = ep.geometry.load(path)
        if count[name] < SMALLEST or shape.faces is None or shape.n < options.n:
            continue
        vertices = np.asarray(shape.vertices, float)
        chosen = np.asarray(ep.geometry.farthest_points(vertices, options.n, seed=0))
        exact = ep.geometry.oracle(vertices, shape.faces, options.k)
        mass = np.full(options.n, 1 / options.n)
        bases["mesh"].append(ep.Basis(exact.vectors[chosen] * np.sqrt(mass)[:, None], mass, exact.eigenvalues))
        bases["robust_laplacian"].append(robust(vertices[chosen], options.k))
        bases["eigenprobe"].append(ep.decompose(vertices[chosen], k=options.k))
        kinds.append(name)
        print(path.stem, name, flush=True)
    names = sorted(set(kinds))
    labels = torch.tensor([names.index(name) for name in kinds])
    rows = accuracies({name: stacked(each) for name, each in bases.items()}, labels, options.steps, options.seeds)
    print(markdown(rows))
    found = {"shapes": len(kinds), "classes": {name: kinds.count(name) for name in names}, "rows": rows}
    write("classify.json", facts("classify", "cpu", options, peers=("robust_laplacian",)) | found)


if __name__ == "__main__":
    main()
