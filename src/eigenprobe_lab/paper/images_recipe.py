"""The paper's own network on a data set of features: its eight experiments are one recipe with two
names.

    features (n, d) -> 5000 rows, drawn anew for every batch -> graph (cosine, self-loops)
                    -> 300 probes S^t g -> transformer -> 11 vectors
    other rows (m, d): one pass over them; their coordinates are V = Q / q_1 without its constant

A table of fewer rows is the same cloud in every batch: only the probes vary.

The paper tunes neighbours, sigma and steps for each data set and extractor. On other features
`tune` does the same, by the closed form of the probes on development rows: with too small a sigma
hardly anything is smoothed, and a network learns noise. Six layers of attention over 5000 tokens
ask for a GPU. `OptimalApproximationEigenmaps` is the product; this is the record of how the paper
did it, with its hyper-parameters (`published.IMAGE_SETTINGS`).
"""

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.host.tables import Record
from eigenprobe.io.rows import open_rows
from eigenprobe.probes import Probes, nested_basis
from eigenprobe.training import FitSettings, Optimisation, ProbeSettings, RunSettings, fit_network

from ..evaluation.clustering import kmeans_scores
from ..evaluation.samples import fitted_network
from ..factory.recipes import recipe_kind
from .overfit import covariance
from .published import IMAGE_SETTINGS

POOL = 16  # times the size of a subset: rows held in memory
GRID = tuple(product((10, 20, 30), (0.1, 0.2, 0.3, 0.4), (20, 40)))  # neighbours, sigma, steps
DEVELOPMENT = 1000  # rows that a triple is chosen on
TUNED = ("width", "heads", "neighbours", "sigma", "smoothing_steps")
Extractor = Literal["dinov2", "clip"]
# The paper's network: changes to "overfit" for both, and by extractor.
NETWORK: dict[str, Any] = {"point": (), "layers": 6, "dropout": 0.1}
HEAD = {"clip": (64,), "dinov2": ()}


@dataclass(frozen=True)
class ImagesRecipe:
    """The paper's hyper-parameters and the size of the run; those of `TUNED` are by data set and
    extractor.
    """

    dataset: str = "imagenette"
    extractor: Extractor = "dinov2"
    features: str = ""  # the table, given on the command line
    width: int | None = None
    heads: int | None = None
    neighbours: int | None = None
    sigma: float | None = None
    smoothing_steps: int | None = None
    vectors: int = 11
    probes: int = 300
    sample: int = 5000
    steps: int = 2000
    rate: float = 5e-4
    clip: float = 0.01
    accumulate: int = 16
    seed: int = 0

    def with_published(self) -> Self:
        """The same with what is None as the paper has it."""
        known = IMAGE_SETTINGS.get((self.dataset, self.extractor))
        missing = [name for name in TUNED if getattr(self, name) is None]
        if known is None and missing:
            names, what = ", ".join(sorted({name for name, _ in IMAGE_SETTINGS})), missing[0]
            raise InputError(
                f"the paper has no {what} for {self.dataset!r}: "
                f"set it, or dataset to one of {names}"
            )
        theirs: dict[str, Any] = dict(zip(TUNED, known or (), strict=False))
        return replace(self, **{name: theirs[name] for name in missing})

    def probe_distribution(self) -> Probes:
        """The probes: on the graph of angles, the point itself among its neighbours."""
        r = self.with_published()
        graph: dict[str, Any] = {"k": r.neighbours, "metric": "cosine", "self_loops": True}
        return Probes(r.probes, r.smoothing_steps or 0, sigma=r.sigma, **graph)


def closed_form(recipe: ImagesRecipe, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Coordinates ``(m, K - 1)`` of rows by the leading eigenvectors of the covariance of the
    probes on them.

    The first vector is the constant, of an even mass, which a row-stochastic smoother keeps.
    """
    exact = covariance(torch.as_tensor(np.asarray(rows, np.float64)), recipe.probe_distribution())
    exact = exact - exact.mean(0)
    exact = exact - exact.mean(1, keepdim=True)
    return torch.linalg.eigh(exact).eigenvectors.flip(-1)[:, : recipe.vectors - 1].numpy()


def tune(
    recipe: ImagesRecipe, rows: NDArray[Any], labels: NDArray[Any]
) -> tuple[ImagesRecipe, list[Record]]:
    """The recipe with the triple of `GRID` whose closed form clusters development rows best (NMI);
    all scores.
    """
    chosen = np.random.default_rng(recipe.seed).permutation(len(rows))[:DEVELOPMENT]
    scores = []
    for neighbours, sigma, steps in GRID:
        triple: Record = dict(
            zip(TUNED[2:], (min(neighbours, len(chosen) - 1), sigma, steps), strict=True)
        )
        found = closed_form(replace(recipe, **triple), rows[chosen])
        scores.append({**triple, "nmi": kmeans_scores(found, labels[chosen], starts=3)["nmi"]})
    best = max(scores, key=lambda row: row["nmi"])
    return replace(recipe, **{name: best[name] for name in triple}), scores


def learn_rows(recipe: ImagesRecipe, points: torch.Tensor, how: RunSettings) -> Basis:
    """Train the paper's network on rows ``(n, d)``."""
    r, paper = recipe.with_published(), recipe.probe_distribution()
    smoother = {"k": paper.k, "metric": "cosine", "self_loops": True, "bandwidth": r.sigma}
    schedule = Optimisation(
        r.steps,
        r.rate,
        warmup=0,
        schedule="constant",
        weight_decay=0.01,
        betas=(0.9, 0.999),
        clip=r.clip,
    )
    size = min(r.sample, len(points))
    # A GPU takes the subsets of a step side by side; on a processor their activations would fill
    # the memory.
    clouds = r.accumulate if how.where.type == "cuda" else 1
    settings = FitSettings(
        smoother="row",
        loss="sampled",
        probes=ProbeSettings(
            "row", r.smoothing_steps, count=r.probes, paper=paper, smoother=smoother
        ),
        preset="overfit",
        sizes=NETWORK
        | {"head": HEAD[r.extractor], "width": r.width, "feedforward": r.width, "heads": r.heads},
        optimisation=schedule,
        resamplings="fresh",
        subset="uniform",
        clouds=clouds,
        size=size,
        ritz=False,
        seed=r.seed,
    )
    run = replace(how, accumulate=r.accumulate // clouds)
    return fit_network(points, r.vectors, settings=settings, device=how.device, run=run)


@torch.no_grad()
def feed_forward(basis: Basis, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Coordinates ``(m, K - 1)`` of rows ``(m, d)`` by one pass of the network of ``basis`` over
    them.
    """
    function = fitted_network(basis)
    points = function.inputs(torch.as_tensor(rows, device=function.matrix.device))[None]
    q = nested_basis(function.network(points)[0])
    return (q / q[:, :1])[:, 1:].cpu().numpy()


@recipe_kind("images", ImagesRecipe)
def _run(recipe: ImagesRecipe, out: Path, how: RunSettings) -> Path:
    """Fit a random sample of the recipe's table and save the basis; ``basis(rows)`` embeds any
    others.
    """
    if not recipe.features:
        made = f"see 'eigenprobe features', {recipe.extractor}"
        raise InputError(f"the recipe needs its table: features=FILE.npz ({made})")
    rows = open_rows(recipe.features)
    # Subsets are drawn from a pool a few times their size: no more is ever in memory.
    chosen = np.random.default_rng(recipe.seed).permutation(rows.shape[0])[: POOL * recipe.sample]
    points = torch.from_numpy(np.asarray(rows.take(np.sort(chosen)), np.float32))
    learn_rows(recipe, points, how).save(out / "basis.safetensors")
    return out / "basis.safetensors"
