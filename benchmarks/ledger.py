"""What every part of the way from points to operator is worth, and what it costs to read.

    python -m benchmarks.ledger [MESHES] [--shapes 30] [--odd] [--parts NAME ...] [--out FILE]

Every part is switched off by its name, and the clouds are decomposed without it: samples of meshes
(a folder of them, or the shape that the package ships) of several kinds, and known spectra.  A row
holds |cosine| with the mesh's own functions for k <= 20, the error of eigenvalues, spectra that are
wrong without a word, and seconds of one thread; then the tokens and the hand-set numbers of the
part.  ``--odd`` takes the other half of the meshes: choose on one half, report the other.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import time
import tokenize
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import eigenprobe as ep
from eigenprobe.cloud.farthest import farthest_points

from .truths import TRUTHS

KINDS = (
    "even 4000",
    "even 500",
    "noise 4000",
    "strays 4000",
    "copies 1500",
    "lines 4000",
    "step 4000",
)
SOURCE = Path(ep.__file__).parent
WRONG, RIGHT = 0.1, 0.05


def _none(*_: Any, **__: Any) -> None:
    return None


def _no_outliers(points: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.zeros(len(points), dtype=torch.bool, device=points.device)


def _uncut(graph: Any, *_: Any) -> tuple[Any, torch.Tensor]:
    return graph, torch.empty((0, 2), dtype=torch.int64, device=graph.device)


def _noisy(graph: Any) -> tuple[Any, torch.Tensor]:
    return graph, torch.zeros(len(graph.each), dtype=torch.bool, device=graph.device)


def _joined(near: Any, edges: Any, *_: Any) -> Any:
    return edges


# name: (module whose name is replaced, the name, what stands for it, the file of the part)
PARTS: dict[str, tuple[str, str, Callable[..., Any], str]] = {
    "outliers": ("decomposition.settings", "find_outliers", _no_outliers, "cloud/inspection.py"),
    "sample": ("decomposition.settings", "working_sample", _none, "cloud/sample.py"),
    "short-cuts": ("cloud.edges", "real_neighbours", _uncut, "cloud/edges.py"),
    "noise": ("cloud.edges", "without_noise", _noisy, "cloud/quadrics.py"),
    "bridges": ("smoothers.cells", "bridged", _joined, "smoothers/stencil.py"),
    "small parts": ("decomposition.settings", "_small_parts", _none, "decomposition/settings.py"),
    "signs": ("decomposition.entry", "warn_of_errors", _none, "decomposition/indicators.py"),
}


@contextmanager
def without(part: str | None) -> Iterator[None]:
    """The library with one part switched off."""
    if part is None:
        yield
        return
    module, name, stand_in, _ = PARTS[part]
    with patch(f"eigenprobe.{module}.{name}", stand_in):
        yield


def size(path: Path) -> tuple[int, int]:
    """Tokens of a file without comments and docstrings, and its numbers in capitals."""
    text = path.read_text()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    tokens = [
        t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in skipped
    ]
    tokens = [t for t in tokens if not (t.type == tokenize.STRING and t.string.startswith('"""'))]
    numbers = 0
    for node in ast.walk(ast.parse(text)):
        named = isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        if named and not isinstance(getattr(node, "value", None), ast.Call):
            numbers += (
                sum(
                    isinstance(part, ast.Constant) and isinstance(part.value, (int, float))
                    for part in ast.walk(node.value)
                )
                if _chosen(node)
                else 0
            )
    return len(tokens), numbers


def _chosen(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return all(
        isinstance(t, ast.Name) and (t.id.isupper() or isinstance(node, ast.AnnAssign))
        for t in targets
    )


def cloud(
    shape: Any, functions: np.ndarray, kind: str, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Points of a mesh sampled and damaged in one way, its functions there, and which rows
    count.
    """
    v, f = shape.vertices, shape.faces
    name, n = kind.split()[0], int(kind.split()[1])
    corners = v[f]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    if name == "step":
        area = area * np.where(corners.mean(1)[:, 0] > np.median(v[:, 0]), 20.0, 1.0)
    count = {"even": 8 * n, "noise": 8 * n, "copies": 8 * n // 3, "lines": 40 * n}.get(name, n)
    face = rng.choice(len(f), count, p=area / area.sum())
    r, s = np.sqrt(rng.random(count)), rng.random(count)
    weight = np.c_[1 - r, r * (1 - s), r * s][:, :, None]
    x, t = (corners[face] * weight).sum(1), (functions[f[face]] * weight).sum(1)
    if name in ("even", "noise", "copies"):
        rows = farthest_points(x, n // 3 if name == "copies" else n, 0)
        rows = np.repeat(rows, 3) if name == "copies" else rows
        x, t = x[rows], t[rows]
        spread = {"even": 0.0, "noise": 0.01, "copies": 1e-4}[name]
        x = x + spread * rng.standard_normal(x.shape)
    if name == "lines":
        along = x @ (axis := rng.standard_normal(3)) / np.linalg.norm(axis)
        gap = 6 * np.sqrt(4 / n) / np.sqrt(6)
        rows = np.abs(along / gap - np.round(along / gap)).argsort()[:n]
        x, t = x[rows], t[rows]
    used = np.ones(len(x), bool)
    if name == "strays":
        more = v.min(0) + rng.random((max(3, 3 * n // 100), 3)) * np.ptp(v, axis=0)
        x, t = np.r_[x, more], np.r_[t, np.zeros((len(more), t.shape[1]))]
        used = np.r_[used, np.zeros(len(more), bool)]
    return x, t, used


def meshes(folder: Path | None, count: int, odd: bool) -> list[Any]:
    """Shapes of size one: every other mesh of a folder, or the one that the package ships."""
    if folder is None:
        return [ep.datasets.creature()]
    paths = sorted(p for p in folder.iterdir() if p.suffix in (".off", ".obj", ".ply"))[odd::2]
    found = []
    for path in paths[:: max(1, len(paths) // count)][:count]:
        shape = ep.geometry.load(path)
        v = shape.vertices - shape.vertices.mean(0)
        found.append(replace(shape, vertices=v / np.linalg.norm(v, axis=1).max()))
    return found


def measure(part: str | None, shapes: list[tuple[Any, Any]]) -> dict[str, Any]:
    """The row of a part that is switched off; of None, of the library as it is."""
    row: dict[str, Any] = {"part": part or "all on"}
    with without(part), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            cosines, errors, seconds = [], [], []
            for number, (shape, oracle) in enumerate(shapes):
                x, t, used = cloud(
                    shape, np.asarray(oracle.vectors), kind, np.random.default_rng(number)
                )
                began = time.process_time()
                basis = ep.decompose(x, k=20)
                seconds.append(time.process_time() - began)
                V, t = np.asarray(basis.vectors)[used], t[used, :20]
                lengths = np.linalg.norm(V, axis=0) * np.linalg.norm(t, axis=0)
                cosines.append(np.mean(np.abs((V * t).sum(0)) / np.maximum(lengths, 1e-300)))
                errors.append(
                    np.mean(np.abs(basis.eigenvalues[1:20] / oracle.eigenvalues[1:20] - 1))
                )
            row[kind] = [float(np.mean(each)) for each in (cosines, errors, seconds)]
    with without(part):
        row["silent"], row["alarms"] = spectra()
    return row


def spectra() -> tuple[int, int]:
    """How many known spectra are wrong without a word, and how many right ones are doubted."""
    silent = alarms = 0
    for truth in TRUTHS[::6]:
        x, values = truth.points(np.random.default_rng(0)), truth.spectrum(11)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = np.asarray(ep.decompose(x, k=11).eigenvalues)
        error = np.mean(np.abs(found[1:11] / values[1 : len(found)][:10] - 1))
        told = any("may be off" in str(each.message) for each in said)
        silent += error > WRONG and not told
        alarms += error < RIGHT and told
    return int(silent), int(alarms)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("meshes", type=Path, nargs="?")
    parser.add_argument("--shapes", type=int, default=30)
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--out", type=Path)
    o = parser.parse_args()
    torch.set_num_threads(1)
    shapes = [
        (shape, ep.geometry.oracle(shape.vertices, shape.faces, 20))
        for shape in meshes(o.meshes, o.shapes, o.odd)
    ]
    print(
        "part         tokens numbers  "
        + "  ".join(f"{kind:>17s}" for kind in KINDS)
        + "  silent alarms"
    )
    rows = []
    for part in (None, *o.parts):
        row = measure(part, shapes)
        row["tokens"], row["numbers"] = (0, 0) if part is None else size(SOURCE / PARTS[part][3])
        rows.append(row)
        cells = "  ".join(f"{a:.3f} {b:.3f} {s:4.2f}s" for a, b, s in (row[kind] for kind in KINDS))
        print(
            f"{row['part']:12s} {row['tokens']:6d} {row['numbers']:7d}  {cells}  "
            f"{row['silent']:6d} {row['alarms']:6d}",
            flush=True,
        )
    if o.out:
        o.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
