"""The recipe ``overfit``: one network on one shape, in a run that can be resumed."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from eigenprobe.errors import InputError
from eigenprobe.geometry import Shape, farthest_points, load
from eigenprobe.host.files import write_json
from eigenprobe.points import Frame
from eigenprobe.training import Batch, FitSettings, RunSettings, fit_network

from ..evaluation.curves import OracleCosine
from ..evaluation.oracles import cached_oracle
from .averaging import Averaged
from .recipes import recipe_kind

SAMPLE = 4000  # vertices of a mesh at which the oracle is compared


@dataclass(frozen=True)
class OverfitRecipe(FitSettings):
    """`FitSettings`, a mesh or cloud ``shape`` (its vertices are used), ``k`` vectors, and keys of
    `RunSettings`.

    With ``validate_every`` and a mesh, the logs have |cosine| with its oracle.
    """

    shape: str | None = None
    k: int = 50
    validate_every: int = 0
    checkpoint_every: int = 200
    average: float = 0.0
    accumulate: int = 1

    def __post_init__(self) -> None:
        if not self.shape:
            raise InputError("an overfit recipe needs a shape: add shape=FILE")


def _with_oracle(shape: Shape, recipe: OverfitRecipe) -> tuple[Batch, Tensor]:
    """Farthest vertices of a mesh as the network sees them, and the oracle there."""
    k, size = min(recipe.k, shape.n - 1), min(recipe.size or SAMPLE, shape.n)
    assert shape.faces is not None
    exact = cached_oracle(shape.vertices, shape.faces, k)
    chosen = farthest_points(shape.vertices, size, recipe.seed)
    points = torch.as_tensor(shape.vertices[chosen]).float()
    mass = None if recipe.smoother == "row" else recipe.all_probes().build(points).mass
    frame = Frame.of(torch.as_tensor(shape.vertices).float())
    batch = Batch(
        frame(points, torch.float32)[None], None if mass is None else mass.sqrt().float()[None]
    )
    return batch, torch.as_tensor(exact.vectors[chosen])


@recipe_kind("overfit", OverfitRecipe)
def _overfit(recipe: OverfitRecipe, out: Path, how: RunSettings) -> Path:
    """Train, then write ``basis.safetensors`` and ``summary.json``."""
    own = ("validate_every", "checkpoint_every", "accumulate")
    run = replace(how, **{name: getattr(recipe, name) for name in own})
    if recipe.average > 0:
        run = run.watched(Averaged(recipe.average))
    shape = load(str(recipe.shape))
    points = torch.as_tensor(shape.vertices).float()
    if recipe.validate_every and shape.faces is not None:
        run = run.watched(OracleCosine([_with_oracle(shape, recipe)], recipe.validate_every))
    basis = fit_network(points, recipe.k, settings=recipe, run=run, device=how.device)
    result = out / "basis.safetensors"
    basis.save(result)
    write_json(out / "summary.json", {"recipe": asdict(recipe), **basis.info})
    return result
