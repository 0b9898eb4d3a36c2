"""The ``train`` command: a recipe, a few changes to it, and a run that can be interrupted and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .context import Context


def train(
    recipe: Path,
    changes: list[str] = [],  # noqa: B006 (a default for the parser; never changed)
    *,
    resume: Literal["auto", "never"] = "auto",
    context: Context,
) -> None:
    """Train by a recipe: one shape, a family of shapes, or features.

    Examples:
      eigenprobe train recipes/overfit.yaml shape=bunny.obj
      eigenprobe train recipes/pretrain.yaml --out runs/pretrain
      eigenprobe train recipes/pretrain.yaml steps=500 --device cpu

    Args:
        recipe: a YAML file, see recipes/
        changes: key=value, overriding the recipe
        resume: auto continues from the last checkpoint in the output folder, never starts again
    """
    raise NotImplementedError
