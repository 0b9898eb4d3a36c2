"""The paper's own network on a data set of features, by recipe: one YAML for each data set and feature extractor.

    features (n, d) -> 5000 rows, drawn anew for every batch -> graph (cosine, self-loops) -> 300 probes S^t g
    -> transformer -> 11 vectors

The recipe trains it on the paper's sampled, hybrid loss and saves the basis, a function of new rows. Six
layers of attention over 5000 tokens ask for a GPU. `OptimalApproximationEigenmaps` is the product; this is the record
of how the paper did it, with its hyper-parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ..errors import InputError
from ..estimators.rows import open_rows
from ..probes.probes import Probes
from ..training.data import ProbeSettings
from ..training.fit import fit_network
from ..training.module import Optimisation
from ..training.recipes import Resume, recipe_kind
from ..training.runs import RunSettings

POOL = 16  # times the size of a subset: rows held in memory


@dataclass(frozen=True)
class ImagesRecipe:
    """The paper's hyper-parameters ([P] table of image experiments) and the size of the run."""

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
    loss: Literal["sampled", "expected"] = "sampled"
    steps: int = 2000
    rate: float = 5e-4
    clip: float = 0.01
    accumulate: int = 16
    seed: int = 0


@recipe_kind("images", ImagesRecipe)
def _run(recipe: ImagesRecipe, out: Path, device: str, resume: Resume) -> Path:
    """Fit a random sample of the recipe's table and save the basis; ``basis(rows)`` embeds any others."""
    if not recipe.features:
        how = f"see 'eigenprobe features', {recipe.extractor}"
        raise InputError(f"the recipe needs its table: features=FILE.npz ({how})")
    rows = open_rows(recipe.features)
    rng = np.random.default_rng(recipe.seed)
    size = min(recipe.sample, rows.shape[0])
    # Subsets are drawn from a pool a few times their size: no more is ever in memory.
    chosen = np.sort(rng.permutation(rows.shape[0])[: min(rows.shape[0], POOL * size)])
    points = torch.from_numpy(np.asarray(rows.take(chosen), np.float32))
    graph: dict[str, Any] = {"k": recipe.neighbours, "metric": "cosine", "self_loops": True}
    count, steps = recipe.probes, recipe.smoothing_steps
    paper = Probes(count=count, steps=steps, sigma=recipe.sigma, **graph)
    smoother = {**graph, "bandwidth": recipe.sigma}
    basis = fit_network(
        points,
        recipe.vectors,
        seed=recipe.seed,
        device=device,
        folder=out,
        run=RunSettings(accumulate=recipe.accumulate, resume=resume),
        smoother="row",
        loss=recipe.loss,
        probes=ProbeSettings("row", steps=steps, count=count, paper=paper, smoother=smoother),
        preset=recipe.preset,
        sizes={"width": recipe.width, "feedforward": recipe.width, "heads": recipe.heads},
        optimisation=Optimisation(steps=recipe.steps, rate=recipe.rate, clip=recipe.clip),
        resamplings="fresh" if recipe.loss == "sampled" else 4 if len(points) > size else 1,
        subset="uniform",
        size=size,
        accelerate="none",
    )
    basis.save(out / "basis.safetensors")
    return out / "basis.safetensors"
