"""Every constant of the core beside smaller and larger values of it, on clouds whose spectrum is
known.

    python -m benchmarks.constants                 all groups: three minutes of one core, for which
    clouds are small python -m benchmarks.constants Balance

    error %   mean relative error of the eigenvalues          lost %   part of the exact
    eigenfunctions (n, K) that is ARI       of k-means with the true clusters
    outside the span of the K computed vectors products  10^9 multiplications of matrix products
    residual largest |A q - mu q| recall    found of the 13 nearest, by cells
    trustworthiness, ARI: of a map, by the stages

One constant changes at a time, the clouds stay the same; limits of memory and of iterations that no
result depends on (`LIMITS`) are not varied. Solvers are measured where they are chosen among
`filtered` and `nested` alone: on clouds as small as these `inverse` would take the surfaces. The
result goes to $OUT or benchmarks/results as JSON, from where `python -m benchmarks.readme` fills
docs/constants.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.record import facts, write
from eigenprobe.eigen import rotate, solve
from eigenprobe.graph import Graph
from eigenprobe.graph.graph import build_graph
from eigenprobe.search.cells import HOST
from eigenprobe.search.neighbours import nearest_rows
from eigenprobe.shortcuts.cuts import real_neighbours
from eigenprobe.smoothers import Smoother, build_smoother, neighbourhood_smoother
from eigenprobe.smoothers.cells import CELLS
from eigenprobe.smoothers.neighbourhood import SETTINGS
from eigenprobe.smoothers.stencil import BALANCE, SELECTION
from eigenprobe.smoothers.variable import KERNEL

Numbers = dict[str, float]


@dataclass(frozen=True)
class Known:
    """A graph with the exact eigenvalues ``(K,)`` and a basis ``(n, K)`` of the exact
    eigenfunctions.
    """

    graph: Graph
    dimension: int
    eigenvalues: np.ndarray
    functions: np.ndarray

    def compare(self, smoother: Smoother) -> Numbers:
        pairs = solve(smoother, len(self.eigenvalues))
        basis = rotate(pairs.vectors, smoother, len(self.eigenvalues), gaps=pairs.gaps)
        positive = self.eigenvalues > 0
        error = np.abs(basis.eigenvalues.numpy()[positive] / self.eigenvalues[positive] - 1).mean()
        exact = np.linalg.qr(basis.mass.sqrt().numpy()[:, None] * self.functions)[0]
        kept = np.square(basis.q.numpy().T @ exact).sum() / len(self.eigenvalues)
        return {"error %": 100 * float(error), "lost %": 100 * float(1 - kept)}


def graph_of(points: np.ndarray, k: int) -> Graph:
    return build_graph(torch.from_numpy(np.ascontiguousarray(points)), k)


def sphere(
    n: int, d: int, degree: int, rng: np.random.Generator, uneven: bool = False, k: int = 30
) -> Known:
    """Random points of S^d; ``uneven``: seven times as dense at one pole as at the other."""
    x = rng.normal(size=(8 * n, d + 1))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x = x[rng.random(len(x)) < (x[:, 0] + 4 / 3) / (7 / 3)][:n] if uneven else x[:n]
    powers = [
        c for total in range(degree + 1) for c in combinations_with_replacement(range(d + 1), total)
    ]
    monomials = np.stack([np.prod(x[:, list(c)], axis=1) for c in powers], 1)
    vectors, sizes, _ = np.linalg.svd(monomials, full_matrices=False)
    functions = vectors[
        :, sizes > 1e-9 * sizes[0]
    ]  # squares add up to one: fewer functions than monomials
    counts = np.diff(
        [
            0,
            *(
                np.linalg.matrix_rank(monomials[:, : _through(powers, t)])
                for t in range(degree + 1)
            ),
        ]
    )
    values = np.repeat([t * (t + d - 1.0) for t in range(degree + 1)], counts)
    return Known(graph_of(x, k), d, values, functions)


def _through(powers: list[tuple[int, ...]], degree: int) -> int:
    return sum(len(c) <= degree for c in powers)


def torus(n: int, rng: np.random.Generator, k: int = 30) -> Known:
    """Random points of the flat torus in R^4."""
    u, v = rng.uniform(0, 2 * np.pi, (2, n))
    waves = [(a, b) for a, b in product(range(-2, 3), repeat=2) if a * a + b * b <= 4]
    waves.sort(key=lambda pair: pair[0] ** 2 + pair[1] ** 2)
    parts = [np.cos(a * u + b * v) if (a, b) >= (0, 0) else np.sin(a * u + b * v) for a, b in waves]
    points = np.stack([np.cos(u), np.sin(u), np.cos(v), np.sin(v)], 1)
    return Known(
        graph_of(points, k),
        2,
        np.array([a * a + b * b for a, b in waves], float),
        np.stack(parts, 1),
    )


def box(
    n: int, sides: tuple[float, ...], count: int, rng: np.random.Generator, folded: bool = False
) -> Known:
    """Random points of a flat plate in R^3, perhaps folded at a right angle, or of a solid: free
    boundaries.
    """
    x = rng.random((n, len(sides))) * sides
    modes = sorted(
        product(range(7), repeat=len(sides)), key=lambda m: np.square(np.divide(m, sides)).sum()
    )[:count]
    values = np.array([np.square(np.pi * np.divide(m, sides)).sum() for m in modes])
    functions = np.stack([np.cos(np.pi * x / sides * m).prod(1) for m in modes], 1)
    points = np.pad(x, ((0, 0), (0, 3 - len(sides))))
    if folded:
        points[:, 2], points[:, 0] = (
            np.maximum(x[:, 0] - sides[0] / 2, 0),
            np.minimum(x[:, 0], sides[0] / 2),
        )
    return Known(graph_of(points, 30), len(sides), values, functions)


def sheets(n: int, apart: float, rng: np.random.Generator) -> Known:
    """Two parallel plates, ``apart`` spacings from each other: every eigenvalue twice."""
    plate = box(n, (1.0, 0.8), 6, rng)
    x, zero = plate.graph.points.numpy(), np.zeros_like(plate.functions)
    other = x + [0, 0, apart * (0.8 / n) ** 0.5]
    functions = np.block([[plate.functions, zero], [zero, plate.functions]])
    return Known(
        graph_of(np.concatenate([x, other]), 30), 2, np.repeat(plate.eigenvalues, 2), functions
    )


def with_strays(cloud: Known, count: int, rng: np.random.Generator) -> Known:
    """A sphere of which some points are moved outwards, far beyond the spacing."""
    x = cloud.graph.points.numpy().copy()
    x[:count] *= rng.uniform(1.2, 1.6, (count, 1))
    return Known(graph_of(x, 30), cloud.dimension, cloud.eigenvalues, cloud.functions)


def torn(n: int, gap: float, angle: float, rng: np.random.Generator) -> Known:
    """A plate that lacks a strip of so many spacings across, bent there by an angle in degrees: one
    part still.
    """
    plate = box(n, (1.0, 0.8), 12, rng)
    x, half, turn = plate.graph.points.numpy(), gap / 2 * (0.8 / n) ** 0.5, np.radians(angle)
    kept = np.abs(x[:, 0] - 0.5) > half
    out = np.maximum(x[:, 0] - 0.5, 0)
    bent = np.stack([np.minimum(x[:, 0], 0.5) + out * np.cos(turn), x[:, 1], out * np.sin(turn)], 1)
    return Known(graph_of(bent[kept], 30), 2, plate.eigenvalues, plate.functions[kept])


def with_speck(n: int, count: int, apart: float, rng: np.random.Generator) -> Known:
    """A plate and a few points so many spacings above it, which have its values at their feet."""
    plate, h = box(n, (1.0, 0.8), 12, rng), (0.8 / n) ** 0.5
    near = np.argsort(np.linalg.norm(plate.graph.points.numpy() - [0.5, 0.4, 0], axis=1))[:count]
    x = plate.graph.points.numpy()
    above = x[near] + [0, 0, apart * h] + 0.2 * h * rng.normal(size=(count, 3))
    functions = np.concatenate([plate.functions, plate.functions[near]])
    return Known(graph_of(np.concatenate([x, above]), 30), 2, plate.eigenvalues, functions)


def judged(cloud: Known) -> Known:
    """The same graph without its short-cuts, which leaves doubtful edges."""
    return replace(cloud, graph=real_neighbours(cloud.graph)[0])


def lattice(side: int) -> Known:
    """The points of a solid lattice: distances come in shells of equal ones."""
    place = (np.arange(side) + 0.5) / side
    x = np.stack(np.meshgrid(place, place, place, indexing="ij"), -1).reshape(-1, 3)
    modes = sorted(product(range(4), repeat=3), key=lambda m: np.square(m).sum())[:11]
    functions = np.stack([np.cos(np.pi * x * m).prod(1) for m in modes], 1)
    return Known(
        graph_of(x, 30), 3, np.array([np.pi**2 * np.square(m).sum() for m in modes]), functions
    )


def with_twins(cloud: Known, count: int, rng: np.random.Generator, times: int = 14) -> Known:
    """Some points have others a ten-thousandth of the spacing away."""
    x = cloud.graph.points.numpy()
    rows = np.repeat(np.arange(count), times)
    twins = x[rows] + 1e-5 * rng.normal(size=(len(rows), x.shape[1]))
    functions = np.concatenate([cloud.functions, cloud.functions[rows]])
    return Known(
        graph_of(np.concatenate([x, twins]), 30), cloud.dimension, cloud.eigenvalues, functions
    )


def circle(n: int, rng: np.random.Generator) -> Known:
    angle = rng.uniform(0, 2 * np.pi, n)
    waves = np.arange(1, 6)
    parts = [np.ones((n, 1)), np.cos(angle[:, None] * waves), np.sin(angle[:, None] * waves)]
    points = np.stack([np.cos(angle), np.sin(angle)], 1)
    return Known(
        graph_of(points, 30),
        1,
        np.array([0, *np.repeat(waves**2, 2)], float),
        np.concatenate(parts, 1),
    )


def mean(rows: list[Numbers]) -> Numbers:
    return {
        name: float(np.mean([row[name] for row in rows if name in row]))
        for row in rows
        for name in row
    }


def adaptive(clouds: list[Known], balance: bool) -> Callable[[], Numbers]:
    def run() -> Numbers:
        return mean(
            [
                c.compare(build_smoother(c.graph, dimension=c.dimension, balance=balance))
                for c in clouds
            ]
        )

    return run


def embeddings(rng: np.random.Generator) -> Callable[[], Numbers]:
    """Twelve overlapping clusters of different sizes and widths in R^64; S^4, and S^2 turned into
    R^64.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    labels = np.repeat(np.arange(12), np.linspace(40, 220, 12).astype(int))
    centres, widths = 0.7 * rng.normal(size=(12, 64)), rng.uniform(0.6, 1.2, 12)
    table = centres[labels] + widths[labels, None] * rng.normal(size=(len(labels), 64))
    ball = sphere(1500, 2, 3, rng)
    turned = np.linalg.qr(rng.normal(size=(64, 3)))[0]
    known = [sphere(2500, 4, 1, rng, k=15)]
    known.append(
        Known(
            graph_of(ball.graph.points.numpy() @ turned.T, 15), 2, ball.eigenvalues, ball.functions
        )
    )
    ring = circle(300, rng)
    known.append(replace(ring, graph=graph_of(ring.graph.points.numpy() @ turned[:, :2].T, 15)))
    clusters = graph_of(table, 15)

    def run() -> Numbers:
        smoother = neighbourhood_smoother(clusters)
        pairs = solve(smoother, 12)
        found = KMeans(12, n_init=10, random_state=0).fit_predict(
            pairs.vectors / smoother.mass.sqrt()[:, None]
        )
        ari = adjusted_rand_score(labels, found)
        return {
            "ARI": float(ari),
            **mean([each.compare(neighbourhood_smoother(each.graph)) for each in known]),
        }

    return run


def cells(rng: np.random.Generator) -> Callable[[], Numbers]:
    """Rows in clusters and rows without any structure, each searched among its like: found of the
    13 nearest.
    """
    spread = rng.normal(size=(40, 32))[rng.integers(40, size=10_000)] + 0.3 * rng.normal(
        size=(10_000, 32)
    )
    tables = [torch.from_numpy(x).float() for x in (spread, rng.normal(size=(10_000, 32)))]
    exact = [nearest_rows(x, x[:500], 13, backend="torch")[0] for x in tables]

    def run() -> Numbers:
        shares = []
        with Products() as products:
            found = [nearest_rows(x, x[:500], 13, backend="cells")[0] for x in tables]
        for ours, theirs in zip(found, exact, strict=True):
            shares.append(float((ours[:, :, None] == theirs[:, None]).any(1).double().mean()))
        return {
            "recall, clusters": shares[0],
            "recall, noise": shares[1],
            "products": products.count / 1e9,
        }

    return run


class Products(TorchDispatchMode):
    """Counts the multiplications and additions of matrix products, sparse or dense."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm):
            left, right = args[-2:]
            entries = left.numel() if left.layout == torch.strided else left.values().numel()
            self.count += entries * right.shape[1]
        return func(*args, **(kwargs or {}))


# What else each constant might be; numbers that are not listed are halved and doubled.
OTHERS: dict[str, tuple[Any, Any]] = {
    "Selection.solid": ((11, 20, 13), (22, 30, 26)),
    "Selection.along": (0.5, 0.9),
    "Selection.stray": (1.8, 5.0),
    "CellRule.nearest": (10, 18),
    "CellRule.further": (16, 30),
    "CellRule.radius": (1.0, 2.5),
    "CellRule.along": (0.5, 0.9),
    "CellRule.outward": (0.15, 0.6),
    "CellRule.growing": (0.0, 20.0),
    "Balance.end_ridge": (1.0, 1e6),
    "Balance.steepest": (0.5, 0.95),
    "Balance.least_factor": (0.1, 0.6),
    "Balance.ridge": (1e-3, 1e-1),
    "VariableBandwidth.beta": (-0.5, 0.0),
    "VariableBandwidth.tenth": (5, 20),
    "VariableBandwidth.loops": (0.0, 2.0),
    "VariableBandwidth.spread": (5.0, 1.5),
    "VariableBandwidth.floor": (0.1, 0.5),
    "Neighbourhood.smallest": (1e-4, 1e-2),
    "Neighbourhood.disorder": (2.0, 6.0),
    "Stages.early": ((6.0, 60), (24.0, 60)),
    "Stages.middle": ((3.0, 150), (9.0, 150)),
    "Stages.calm": ((1.0, 20), (2.0, 60)),
    "Stages.late": ((2.0, 60), (4.0, 60)),
}


MEMORY = "numbers in memory at once"
ORDER = "which way to the same answer is taken"
# Constants that no result depends on, and why: they are not varied.
LIMITS: dict[str, str] = {
    **dict.fromkeys(("Neighbourhood.block", "Neighbourhood.longest", "Division.block"), MEMORY),
    "Neighbourhood.rounds": "bisection to 2^-40 of the range: half of the rounds leave 2^-20",
    "Neighbourhood.smallest": (
        "the scale of rows whose neighbours all coincide: 0 would divide by 0"
    ),
    "Neighbourhood.least": "two rows alone: 0 would divide by 0",
    **dict.fromkeys(("Division.exact", "Division.wider", "Division.tried"), ORDER),
    "VariableBandwidth.floor": (
        "off, but for the inputs of the pretrained network, which was trained with it"
    ),
    "CellRule.rows": MEMORY,
    "Balance.farthest": (
        "exp(-50) is below rounding and above underflow: a lone far point keeps a tangent frame"
    ),
}


def groups(rng: np.random.Generator) -> dict[str, tuple[Any, Callable[[], Callable[[], Numbers]]]]:
    """Class -> the constants in use, and what measures them."""

    def low() -> list[Known]:
        return [
            sphere(800, 2, 3, rng),
            sphere(800, 2, 3, rng, uneven=True),
            torus(1200, rng),
            box(800, (1.0, 0.8), 12, rng),
            box(800, (1.0, 0.8), 12, rng, folded=True),
            box(1200, (1.0, 0.9, 0.8), 12, rng),
            circle(300, rng),
        ]

    def hard() -> list[Known]:
        return [
            sheets(500, 3.0, rng),
            with_strays(sphere(800, 2, 3, rng), 40, rng),
            judged(sheets(400, 1.6, rng)),
            torn(900, 4.3, 65.0, rng),
            torn(900, 4.7, 100.0, np.random.default_rng(0)),
            with_speck(2400, 22, 4.0, rng),
            lattice(10),
        ]

    return {
        "Selection": (SELECTION, lambda: adaptive(low() + hard(), balance=True)),
        "CellRule": (CELLS, lambda: adaptive(low() + hard(), balance=True)),
        "Balance": (BALANCE, lambda: adaptive(low() + hard(), balance=True)),
        "VariableBandwidth": (
            KERNEL,
            lambda: adaptive(
                [
                    sphere(1500, 4, 1, rng),
                    with_twins(sphere(1500, 4, 1, rng, uneven=True), 20, rng),
                    sphere(1500, 5, 1, rng),
                ],
                balance=False,
            ),
        ),
        "Neighbourhood": (SETTINGS, lambda: embeddings(rng)),
        "Division": (HOST, lambda: cells(rng)),
    }


@contextmanager
def changed(constants: Any, name: str, value: Any) -> Iterator[None]:
    """The shared frozen instance with another value inside the block: it is the default of
    functions everywhere.
    """
    before = getattr(constants, name)
    object.__setattr__(constants, name, value)
    try:
        yield
    finally:
        object.__setattr__(constants, name, before)


def neighbours(group: str, name: str, value: Any) -> tuple[Any, Any]:
    if f"{group}.{name}" in OTHERS:
        return OTHERS[f"{group}.{name}"]
    return (max(1, value // 2), 2 * value) if isinstance(value, int) else (value / 2, 2 * value)


def vary(group: str, constants: Any, run: Callable[[], Numbers]) -> list[dict[str, Any]]:
    """A row per constant: less, as it is, more."""
    rows, usual = [], run()
    for name, value in vars(constants).items():
        if f"{group}.{name}" in LIMITS:
            continue
        less, more = neighbours(group, name, value)
        cells: list[dict[str, Any]] = [{"value": each} for each in (less, value, more)]
        for cell in cells:
            with changed(constants, name, cell["value"]):
                cell.update(usual if cell is cells[1] else run())
        rows.append(
            {"constant": name, **dict(zip(("less", "default", "more"), cells, strict=True))}
        )
        told = [
            f"{key} " + " / ".join(f"{cell[key]:.3g}" for cell in cells)
            for key in cells[0]
            if key != "value"
        ]
        print(f"{group}.{name}: {less} / {value} / {more}   " + "   ".join(told), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "groups", nargs="*", help="classes to vary (default: all, and write the result)"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tables = {}
    with threadpool_limits(1):
        for name, (constants, prepare) in groups(np.random.default_rng(options.seed)).items():
            if not options.groups or name in options.groups:
                tables[name] = vary(name, constants, prepare())
    if not options.groups:
        made = facts("constants", "cpu", options, seed=options.seed)
        write("constants.json", made | {"tables": tables, "limits": LIMITS})


if __name__ == "__main__":
    main()
