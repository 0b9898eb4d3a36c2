"""The ``train`` command: a recipe, a few changes to it, and a run that can be interrupted and resumed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError
from .context import Context

RECIPES = {
    "overfit": "training.recipes",
    "pretrain": "training.pretrain_recipe",
    "images": "experiments.images_recipe",
    "toy1d": "training.recipes",
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
    # a mistake in the recipe should be told before a folder is made
    (module.load_recipe if hasattr(module, "load_recipe") else module.read)(recipe, changes)
    folder = context.folder(recipe.stem)
    result = module.run_recipe(recipe, folder, changes, device=context.device(), resume=resume)
    for path in [result] if isinstance(result, Path) else result:
        context.wrote(path, _what(path))
    context.finish(f"trained {recipe.stem}")


def _what(path: Path) -> str:
    if path.is_dir():
        return f"the model: ep.SpectralModel.from_pretrained({str(path)!r})"
    what = {".safetensors": "the basis: ep.Basis.load(path)", ".ckpt": "the same command continues from it"}
    return (what | {".json": "facts of the run", ".md": "the table", ".png": "the picture"}).get(path.suffix, "")


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
