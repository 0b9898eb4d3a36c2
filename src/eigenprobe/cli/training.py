"""Commands on networks: ``train`` one by a recipe, in a run that can be interrupted, and ``encode`` shapes by one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..host import progress
from .clouds import FileJob, Read, places, read_points
from .session import Session

if TYPE_CHECKING:
    from ..basis import Basis

ENDING = ".safetensors"
BESIDE = {
    "summary.json": "facts of the run",
    "history.json": "the validation curve",
    "toy1d.md": "the table",
    "toy1d.png": "learned vectors over the cosines",
    "last.ckpt": "the same command continues from it",
}


def train(
    recipe: Path,
    changes: list[str] = [],  # noqa: B006 (a default for the parser; never changed)
    *,
    resume: Literal["auto", "never"] = "auto",
    devices: int = 1,
    nodes: int = 1,
    strategy: str | None = None,
    session: Session,
) -> None:
    """Train by a recipe: one shape, or a model for many.

    Examples:
      eigenprobe train overfit shape=bunny.obj
      eigenprobe train pretrain --out runs/pretrain
      eigenprobe train neighbours --out runs/neighbours
      eigenprobe train paper_overfit shape=bunny.obj --device cuda
      eigenprobe train pretrain steps=500 network.width=128 --device cpu
      eigenprobe train pretrain --devices 8 --strategy ddp

    Args:
        recipe: a YAML file, or a shipped one by name: overfit, pretrain, neighbours, toy1d, paper_overfit,
            paper_generalisation, paper_images
        changes: key=value, overriding the recipe
        resume: auto continues from the last checkpoint in the output folder, never starts again
        devices: how many; every process trains on clouds of its own, and gradients are averaged
        nodes: machines with as many devices each
        strategy: of Lightning, such as ddp; chosen by it unless given
    """

    from ..training.recipes import load_recipe, run_recipe

    progress.stage(f"preparing to train {recipe.stem}")
    if session.seed:
        changes = [*changes, f"seed={session.seed}"]
    settings = load_recipe(recipe, changes)  # a mistake in it is an error before a folder is made
    shape = getattr(settings, "shape", None)  # every shape has a folder, and so a network, of its own
    folder = session.folder(recipe.stem if shape is None else f"{recipe.stem}-{Path(shape).stem}")
    session.resumes(folder, resume)
    flags: dict[str, Any] = {} if devices == 1 else {"devices": devices}
    flags |= ({} if nodes == 1 else {"num_nodes": nodes}) | ({} if strategy is None else {"strategy": strategy})
    result = run_recipe(recipe, folder, changes, device=session.device(), resume=resume, flags=flags)
    loader = "SpectralModel.from_pretrained" if result.is_dir() else "Basis.load"
    session.wrote(result, f"ep.{loader}({str(result)!r})")
    for name, what in BESIDE.items():
        if (folder / name).is_file():
            session.wrote(folder / name, what)
    session.finish(f"trained {recipe.stem}")


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
        return read_points(file, samples or None, False, session.seed, at_most=True)

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
        job.run_all(folder, targets, {**given, "model": model, "samples": samples}, force)
