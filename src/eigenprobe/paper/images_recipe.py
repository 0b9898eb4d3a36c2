"""The paper's own network on a data set of features, by recipe: one YAML for each data set and feature extractor.

    features (n, d) -> 5000 rows -> graph (cosine, self-loops) -> 300 probes S^t g -> transformer -> 11 vectors

`run_recipe` trains it on the paper's sampled, hybrid loss and saves the basis, a function of new rows. It needs a GPU
to be pleasant: six layers of attention over 5000 tokens. `OptimalApproximationEigenmaps` is the product; this is the
record of how the paper did it, with its hyper-parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from ..basis import Basis


@dataclass(frozen=True)
class ImagesRecipe:
    """The paper's hyper-parameters ([P] table of image experiments) and the size of the run."""

    kind: str = "images"
    dataset: str = ""
    extractor: str = ""
    features: str = ""  # the table, given on the command line
    preset: str = "images-dinov2"
    width: int = 128
    heads: int = 8
    neighbours: int = 15
    sigma: float = 0.15
    smoothing_steps: int = 20
    vectors: int = 11
    probes: int = 300
    sample: int = 5000
    subsets: int = 4
    loss: Literal["sampled", "expected"] = "sampled"
    steps: int = 2000
    rate: float = 5e-4
    clip: float = 0.01
    accumulate: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind != "images":
            raise InputError(f"expected a recipe of kind 'images', got {self.kind!r}")


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> ImagesRecipe:
    """Read a recipe and apply ``key=value`` changes; unknown keys and wrong types are named."""
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise InputError(f"no such recipe: {path}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not a YAML recipe: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict):
        raise InputError(f"expected a recipe of keys and values in {path}, got {type(content).__name__}")
    for change in changes:
        key, found, value = change.partition("=")
        if not found:
            raise InputError(f"expected key=value, got {change!r}")
        content[key] = yaml.safe_load(value)
    known: dict[str, Any] = {f.name: f.default for f in fields(ImagesRecipe)}
    for key, value in list(content.items()):
        if key not in known:
            raise InputError(f"the recipe has no key {key!r}; expected {', '.join(known)}")
        if isinstance(known[key], float) and isinstance(value, (int, str)) and not isinstance(value, bool):
            content[key] = float(value)  # YAML reads 5e-4 as a string
        if not isinstance(content[key], type(known[key])) or isinstance(value, bool):
            raise InputError(f"expected {type(known[key]).__name__} for {key}, got {value!r}")
    return ImagesRecipe(**content)


def run_recipe(
    path: str | Path, out: str | Path, changes: Sequence[str] = (), *, device: str = "auto", resume: str = "auto"
) -> Path:
    """Train by a recipe and save ``out/basis.safetensors``; checkpoints and logs are in ``out`` too."""
    recipe = load_recipe(path, changes)
    if not recipe.features:
        raise InputError(
            f"the recipe needs its table: features=FILE.npz (see 'eigenprobe features', {recipe.extractor})"
        )
    basis = fit(recipe, Path(out), device=device, resume=resume)
    target = Path(out) / "basis.safetensors"
    basis.save(target)
    return target


def fit(recipe: ImagesRecipe, folder: Path | None = None, *, device: str = "auto", resume: str = "auto") -> Basis:
    """The basis of the recipe's network on a random sample of its table; ``basis(rows)`` embeds any others."""
    import torch

    from ..estimators.rows import open_rows
    from ..probes.probes import Probes
    from ..training.data import ProbeSettings
    from ..training.fit import fit_network
    from ..training.module import Optimisation
    from ..training.runs import RunSettings

    rows = open_rows(recipe.features)
    rng = np.random.default_rng(recipe.seed)
    size = min(recipe.sample, rows.shape[0])
    # The subsets a network sees are drawn from a pool a few times their size: no more is ever in memory.
    chosen = np.sort(rng.permutation(rows.shape[0])[: min(rows.shape[0], recipe.subsets * size)])
    points = torch.from_numpy(np.asarray(rows.take(chosen), np.float32))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    probes = Probes(
        count=recipe.probes,
        steps=recipe.smoothing_steps,
        k=recipe.neighbours,
        sigma=recipe.sigma,
        metric="cosine",
        self_loops=True,
    )
    smoother: dict[str, Any] = {
        "k": recipe.neighbours,
        "bandwidth": recipe.sigma,
        "metric": "cosine",
        "self_loops": True,
    }
    return fit_network(
        points,
        recipe.vectors,
        seed=recipe.seed,
        device=device,
        folder=folder,
        run=RunSettings(accumulate=recipe.accumulate, resume="never" if resume == "never" else "auto"),
        smoother="row",
        loss=recipe.loss,
        probes=ProbeSettings("row", steps=recipe.smoothing_steps, count=recipe.probes, paper=probes, smoother=smoother),
        preset=recipe.preset,
        sizes={"width": recipe.width, "feedforward": recipe.width, "heads": recipe.heads},
        optimisation=Optimisation(steps=recipe.steps, rate=recipe.rate, clip=recipe.clip),
        resamplings=recipe.subsets if len(points) > size else 1,
        size=size,
        accelerate="none",
    )
