"""The command ``encode``: bases of many shapes by a pretrained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .clouds import Read, places, read_points, run_all, solved
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

    named, one = places(shapes, session.out), session.out
    if one is None or one.suffix != ENDING or len(named) > 1:
        folder, one = session.folder("encoded"), None
    targets = {file: one or folder / f"{name}{ENDING}" for file, name in named.items()}
    if alone := one is not None or [*named] == shapes[:1]:
        session.refuse_existing(targets[first := next(iter(named))], force)
    network, device = SpectralModel.from_pretrained(model), session.device()

    def read(file: Path) -> Read:
        return read_points(file, samples, False, session.seed, at_most=True)

    def solve(cloud: Read) -> Basis:
        return network.encode(cloud.points, k=k, ritz=ritz, refine=refine, device=device)

    def work(file: Path, target: Path) -> tuple[Basis, Path]:
        basis = solved(session, file, read, solve)
        basis.save(target)
        session.wrote(target, f"{basis.n} points, {basis.k} vectors")
        return basis, target

    if alone:
        work(first, targets[first])
        session.finish("encoded 1 of 1 shapes")
    else:
        run_all("encode", session, folder, targets, work, force)
