"""The command ``train``: a network by a recipe, in a run that can be interrupted."""

from pathlib import Path
from typing import Any, Literal

from eigenprobe.cli.session import SHARED, Session
from eigenprobe.host import progress
from eigenprobe.host.files import reading

BESIDE = {
    "summary.json": "facts of the run",
    "history.json": "the validation curve",
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
    session: Session = SHARED,
) -> None:
    """Train by a recipe: one shape, or a model for many.

    For example:

        eigenprobe train overfit shape=bunny.obj
        eigenprobe train pretrain --out runs/pretrain
        eigenprobe train neighbours --out runs/neighbours
        eigenprobe train paper_overfit shape=bunny.obj --device cuda
        eigenprobe train pretrain steps=500 network.width=128 --device cpu
        eigenprobe train pretrain --devices 8 --strategy ddp

    Args:
        recipe: a YAML file, or a shipped one by name: overfit, pretrain, neighbours,
            paper_overfit, paper_generalisation, paper_images
        changes: key=value, overriding the recipe, as in steps=500 or network.width=128; an
            unknown key is answered by all that there are
        resume: auto continues from the last checkpoint in the output folder, never starts again
        devices: how many; every process trains on clouds of its own, and gradients are averaged
        nodes: machines with as many devices each
        strategy: of Lightning, such as ddp; chosen by it unless given
    """

    from ..factory.recipes import load_recipe, run_recipe

    progress.stage(f"preparing to train {recipe.stem}")
    if session.seed:
        changes = [*changes, f"seed={session.seed}"]
    settings = load_recipe(recipe, changes)  # a mistake in it is an error before a folder is made
    shape = getattr(
        settings, "shape", None
    )  # every shape has a folder, and so a network, of its own
    folder = session.folder(recipe.stem if shape is None else f"{recipe.stem}-{Path(shape).stem}")
    say_resumed(session, folder, resume)
    flags: dict[str, Any] = {} if devices == 1 else {"devices": devices}
    flags |= ({} if nodes == 1 else {"num_nodes": nodes}) | (
        {} if strategy is None else {"strategy": strategy}
    )
    result = run_recipe(
        recipe, folder, changes, device=session.device(), resume=resume, flags=flags
    )
    loader = "SpectralModel.from_pretrained" if result.is_dir() else "Basis.load"
    session.wrote(result, f"ep.{loader}({str(result)!r})")
    for name, what in BESIDE.items():
        if (folder / name).is_file():
            session.wrote(folder / name, what)
    session.finish(f"trained {recipe.stem}")


def say_resumed(session: Session, folder: Path, resume: str) -> None:
    """Say from which step each training goes on that an earlier run has left in ``folder``."""
    import torch

    for last in sorted(folder.rglob("last.ckpt")) if resume == "auto" else []:
        with reading(last, "a checkpoint"):
            found = torch.load(last, map_location="cpu", weights_only=True, mmap=True)
            step = found["global_step"]
        session.say(f"going on from step {step} in {last}")
