"""The recipe ``overfit``: one network on one shape, in a run that can be resumed."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from eigenprobe.errors import InputError
from eigenprobe.geometry import load
from eigenprobe.host.files import write_json
from eigenprobe.training import FitSettings, RunSettings, fit_network

from .recipes import recipe_kind


@dataclass(frozen=True)
class OverfitRecipe(FitSettings):
    """`FitSettings`, a mesh or cloud ``shape`` (its vertices are used), ``k`` vectors, and keys of
    `RunSettings`."""

    shape: str | None = None
    k: int = 50
    validate_every: int = 0
    checkpoint_every: int = 200
    accumulate: int = 1

    def __post_init__(self) -> None:
        if not self.shape:
            raise InputError("an overfit recipe needs a shape: add shape=FILE")


@recipe_kind("overfit", OverfitRecipe)
def _overfit(recipe: OverfitRecipe, out: Path, how: RunSettings) -> Path:
    """Train, then write ``basis.safetensors`` and ``summary.json``."""
    own = ("validate_every", "checkpoint_every", "accumulate")
    run = replace(how, **{name: getattr(recipe, name) for name in own})
    points = torch.as_tensor(load(str(recipe.shape)).vertices).float()
    basis = fit_network(points, recipe.k, settings=recipe, run=run, device=how.device)
    result = out / "basis.safetensors"
    basis.save(result)
    write_json(out / "summary.json", {"recipe": asdict(recipe), **basis.info})
    return result
