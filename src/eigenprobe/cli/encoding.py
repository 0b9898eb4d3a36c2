"""The command ``encode``: bases of many shapes by a pretrained model."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .clouds import ENDING, places, solved, work_all
from .session import SHARED, K, Session

if TYPE_CHECKING:
    from ..basis import Basis
    from ..io.shapes import Shape
    from ..pretrained.model import SpectralModel


def encode(
    shapes: list[Path],
    *,
    k: K = 50,
    model: str = "surface",
    samples: int = 1500,
    refine: int = 0,
    force: bool = False,
    scheduler: str | None = None,
    session: Session = SHARED,
) -> None:
    """Bases of many shapes in one pass each through a pretrained model.

    For example:

        eigenprobe encode scans/ --out bases
        eigenprobe encode a.obj b.ply c.npy -k 20 --refine 1
        eigenprobe encode scans/ --model runs/pretrain/model

    Args:
        shapes: files, or folders of them, sub-folders included; a stopped run goes on
        k: how many basis vectors
        model: a name in the package, a folder or a hub id
        samples: at most this many farthest points of each shape; 0 takes all
        refine: refinement sweeps
        force: overwrite what an earlier run has written
        scheduler: address of a Dask scheduler, or processes: files go to its workers
    """

    def solve(cloud: Shape) -> Basis:
        options: Any = {"k": k, "refine": refine, "device": session.device()}
        return _loaded(model).encode(cloud.vertices, **options)

    def work(file: Path, target: Path, session: Session) -> tuple[Basis, Path]:
        basis = solved(file, solve, session.seed, samples=samples, at_most=True)
        basis.save(target)
        session.wrote(target, f"{basis.n} points, {basis.k} vectors")
        session.finish(f"encoded {file.name}")
        return basis, target

    named, folder = places(shapes, session.out), session.folder("encoded")
    targets = {file: folder / f"{name}{ENDING}" for file, name in named.items()}
    work_all(work, targets, folder, session, force, scheduler, [*named] == shapes[:1])


@cache
def _loaded(model: str) -> SpectralModel:
    """Once in every process."""
    from ..pretrained.model import SpectralModel

    return SpectralModel.from_pretrained(model)
