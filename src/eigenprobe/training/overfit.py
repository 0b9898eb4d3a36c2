"""The ``overfit`` recipe: one network on one shape, its basis and the facts of the run in a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from ..errors import InputError
from ..files import atomic_path
from .fit import FitSettings, fit_network
from .recipes import recipe_kind
from .runs import RunSettings


@dataclass(frozen=True)
class OverfitRecipe(FitSettings):
    """`FitSettings`, a mesh or cloud ``shape`` (its vertices are used), ``k`` vectors, and keys of `RunSettings`."""

    shape: str | None = None
    k: int = 50
    validate_every: int = 0
    checkpoint_every: int = 200
    average: float = 0.0
    accumulate: int = 1

    def __post_init__(self) -> None:
        if not self.shape:
            raise InputError("an overfit recipe needs a shape: add shape=FILE")


@recipe_kind("overfit", OverfitRecipe)
def _overfit(recipe: OverfitRecipe, out: Path, how: RunSettings) -> Path:
    """Train, then write ``basis.safetensors`` and ``summary.json``."""
    from ..geometry import load

    run = replace(
        how,
        validate_every=recipe.validate_every,
        checkpoint_every=recipe.checkpoint_every,
        average=recipe.average,
        accumulate=recipe.accumulate,
    )
    points = torch.as_tensor(load(str(recipe.shape)).vertices).float()
    basis = fit_network(points, recipe.k, settings=recipe, run=run, device=how.device)
    result = out / "basis.safetensors"
    basis.save(result)
    with atomic_path(out / "summary.json") as temporary:
        temporary.write_text(json.dumps({"recipe": asdict(recipe), **basis.info}, indent=1, default=str) + "\n")
    return result
