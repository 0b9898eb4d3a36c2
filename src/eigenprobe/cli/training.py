"""The ``train`` command: a recipe, a few changes to it, and a run that can be interrupted and resumed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError
from .context import Context

RECIPES = {
    "overfit": "training.recipes",
    "pretrain": "pretrained.recipe",
    "images": "paper.images_recipe",
    "toy1d": "training.recipes",
}
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
    context: Context,
) -> None:
    """Train by a recipe: one shape, or a model for many.

    Examples:
      eigenprobe train recipes/overfit.yaml shape=bunny.obj
      eigenprobe train recipes/pretrain.yaml --out runs/pretrain
      eigenprobe train recipes/pretrain.yaml steps=500 network.width=128 --device cpu

    Args:
        recipe: a YAML file, see recipes/
        changes: key=value, overriding the recipe
        resume: auto continues from the last checkpoint in the output folder, never starts again
    """
    module = _module(recipe)
    if context.seed:
        changes = [*changes, f"seed={context.seed}"]
    module.load_recipe(recipe, changes)  # a mistake in it should be told before a folder is made
    folder = context.folder(recipe.stem)
    result = module.run_recipe(recipe, folder, changes, device=context.device(), resume=resume)
    loader = "SpectralModel.from_pretrained" if result.is_dir() else "Basis.load"
    context.wrote(result, f"ep.{loader}({str(result)!r})")
    for name, what in BESIDE.items():
        if (folder / name).is_file():
            context.wrote(folder / name, what)
    context.finish(f"trained {recipe.stem}")


def _module(recipe: Path) -> Any:
    """The module that runs recipes of this kind: each has ``load_recipe`` and ``run_recipe``."""
    import yaml

    if not recipe.is_file():
        raise InputError(f"no such recipe: {recipe}")
    try:
        content = yaml.safe_load(recipe.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"expected a YAML recipe, cannot read {recipe}: {error}") from error
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind not in RECIPES:
        raise InputError(f"expected a recipe whose kind is one of {', '.join(RECIPES)}, got {kind!r} in {recipe}")
    return import_module(f"eigenprobe.{RECIPES[kind]}")
