"""The ``train`` command: a recipe, a few changes to it, and a run that can be interrupted and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..errors import InputError
from .context import Context


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
    kind = _kind(recipe)
    if context.seed:
        changes = [*changes, f"seed={context.seed}"]
    if kind == "pretrain":
        from ..training.pretrain_recipe import load_recipe, run_recipe

        load_recipe(recipe, changes)  # a mistake in it should be told before a folder is made
        folder = context.folder(recipe.stem)
        model = run_recipe(recipe, folder, changes, device=context.device(), resume=resume)
        context.wrote(model, f"the model: ep.SpectralModel.from_pretrained({str(model)!r})")
    else:
        raise InputError(f"expected a recipe of kind pretrain, got {kind!r} in {recipe}")
    context.finish(f"trained {recipe.stem}")


def _kind(recipe: Path) -> str:
    import yaml

    if not recipe.is_file():
        raise InputError(f"no such recipe: {recipe}")
    try:
        content = yaml.safe_load(recipe.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"expected a YAML recipe, cannot read {recipe}: {error}") from error
    if not isinstance(content, dict) or "kind" not in content:
        raise InputError(f"expected a recipe with a 'kind', got none in {recipe}")
    return str(content["kind"])
