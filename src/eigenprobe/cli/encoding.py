"""The command ``encode``: bases of many shapes by a pretrained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .clouds import FileJob, Read, places, read_points
from .session import Session

if TYPE_CHECKING:
    from ..basis import Basis

ENDING = ".safetensors"


def encode(
    shapes: list[Path],
    *,
    k: int = 50,
    model: str = "surface",
    samples: int = 1500,
    ritz: bool = True,
    refine: int = 0,
    force: bool = False,
    scheduler: str | None = None,
    session: Session,
) -> None:
    """Bases of many shapes in one pass each through a pretrained model.

    Examples:
      eigenprobe encode scans/ --out bases
      eigenprobe encode a.obj b.ply c.npy -k 20 --refine 1
      eigenprobe encode scans/ --model runs/pretrain/model

    Args:
        shapes: files, or folders of them, sub-folders included; a stopped run goes on
        k: how many basis vectors
        model: a name in the package, a folder or a hub id
        samples: at most this many farthest points of each shape; 0 takes all
        ritz: rotate within the predicted span to the best order
        refine: refinement sweeps
        force: overwrite what an earlier run has written
        scheduler: address of a Dask scheduler, or processes: files go to its workers
    """
    from ..pretrained.model import SpectralModel

    named = places(shapes, session.out)
    if session.out is not None and session.out.suffix == ENDING and len(named) == 1:
        folder, targets = None, dict.fromkeys(named, session.out)
    else:
        folder = session.folder("encoded")
        targets = {file: folder / f"{name}{ENDING}" for file, name in named.items()}
    if single := folder is None or [*named] == shapes[:1]:
        session.refuse_existing(targets[first := next(iter(named))], force)
    given: dict[str, Any] = {"k": k, "ritz": ritz, "refine": refine}
    network, device = SpectralModel.from_pretrained(model), session.device()

    def read(file: Path) -> Read:
        return read_points(file, samples, False, session.seed, at_most=True)

    def solve(points: object, rows: object = None) -> Any:
        return network.encode(points, device=device, **given)

    def write(file: Path, basis: Basis, began: float) -> Path:
        basis.save(targets[file])
        session.wrote(targets[file], f"{basis.n} points, {basis.k} vectors")
        return targets[file]

    job = FileJob("encode", session, read, solve, write)
    if folder is None or single:
        write(first, job.basis(first), 0.0)
        session.finish("encoded 1 of 1 shapes")
    else:
        job.run_all(folder, targets, force)
