"""The paper's generalisation experiment its own way: one network from coordinates, by its probes and loss.

    clouds (30, 1500, 3) in the unit sphere -> transformer of width 1024, 32 heads -> 50 features -> QR
    probes    500 for each cloud, 20 steps of a Gaussian of sigma .1 on 15 neighbours, the point itself among them
    training  AdamW, 5e-4 falling to 1e-5 as a cosine, clipped at .01, gradients of two batches

What differs: the paper trains on some 200 000 scans and CAD models for 100 epochs; here clouds are procedural, drawn
anew all the time, and the schedule is as long as the recipe says.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch

from eigenprobe import networks
from eigenprobe.cloud import Frame
from eigenprobe.geometry import find_shapes
from eigenprobe.host.files import atomic_path, write_json
from eigenprobe.host.tables import Record
from eigenprobe.probes import Objective, Probes
from eigenprobe.training import Batch, ManifoldData, Optimisation, RunSettings, SpectralModule, train
from eigenprobe.training.recipes import recipe_kind
from eigenprobe.training.runs import OracleCosine

from ..evaluation.samples import Sample
from ..evaluation.unseen import agreement_by_level, polynomials
from ..shapes.stream import ShapeSettings, ShapeStream
from .overfit import best_of_probes


@dataclass(frozen=True)
class GeneralisationRecipe:
    """The paper's settings, and the size of the run. ``meshes`` are validated on (|cosine| with their oracle)."""

    steps: int = 2000
    rate: float = 5e-4
    final_rate: float = 1e-5
    clip: float = 0.01
    accumulate: int = 2
    clouds: int = 30
    points: int = 1500
    k: int = 50
    probes: Probes = field(default_factory=lambda: Probes(500, steps=20, k=15, sigma=0.1, self_loops=True))
    preset: str = "generalisation"
    sizes: dict[str, Any] | None = None
    chunk: int = 1024
    renew: int = 128
    meshes: Path | None = None
    validate_every: int = 200
    seed: int = 0


class ProbedClouds:
    """Batches of procedural clouds with probes on them, by step."""

    def __init__(self, recipe: GeneralisationRecipe) -> None:
        n = recipe.points
        self.probes = recipe.probes
        self.stream = ShapeStream(
            ShapeSettings(recipe.seed, recipe.clouds * n, n, (n, n), chunk=recipe.chunk, chunks=4, renew=recipe.renew)
        )

    def to(self, device: torch.device | str) -> Self:
        """The same clouds, drawn on a device."""
        self.stream = self.stream.to(device)
        return self

    def at(self, step: int) -> Batch:
        clouds = self.stream.at(step).contiguous()
        return Batch(clouds, probes=lambda generator: self.probes.draw(clouds, generator, compiled=True))


def amortise(
    recipe: GeneralisationRecipe, run: RunSettings, samples: Sequence[Sample] = ()
) -> tuple[SpectralModule, list[dict[str, float]]]:
    """Train; the module, and |cosine| with the oracle on the samples along the way."""
    r, gpu = recipe, run.where.type == "cuda"
    network = networks.build(r.preset, 3, r.k, torch.Generator().manual_seed(r.seed), **(r.sizes or {}))
    schedule = Optimisation(r.steps, r.rate, r.final_rate, warmup=0, betas=(0.9, 0.999), weight_decay=0.01, clip=r.clip)
    objective = Objective("sampled", "hybrid", relative=True)
    module = SpectralModule(network, objective, schedule, precision="bf16" if gpu else "32", seed=r.seed)
    cosines = OracleCosine([framed_sample(sample) for sample in samples], r.validate_every)
    run = run.watched(cosines) if samples else run
    data = ManifoldData(ProbedClouds(r), steps=r.steps * r.accumulate)
    source = {"network": str(r.sizes), "points": str(r.points)}
    trainer = train(module, data, replace(run, accumulate=r.accumulate, source=source))
    module.to(trainer.strategy.root_device).eval()
    return module, cosines.history


def framed_sample(sample: Sample) -> tuple[Batch, torch.Tensor]:
    """A sample in the unit sphere, as the network sees it, and the oracle there."""
    x = torch.as_tensor(sample.points)
    return Batch(Frame.of(x)(x, torch.float32)[None]), torch.as_tensor(sample.vectors)


@torch.no_grad()
def unseen(module: SpectralModule, samples: Sequence[Sample], probes: Probes) -> list[Record]:
    """Rows of `Generalisation`: one feed-forward pass of the network, the same untrained, polynomials of its input, and
    the closed form of its probes."""
    rows = []
    trained = module.network.double().eval()
    untrained = networks.described(trained.describe()).to(module.device).double().eval()  # type: ignore[operator]
    for sample in samples:
        batch, _ = framed_sample(sample)
        points = batch.points.to(module.device, torch.float64)
        columns = {
            "the paper's way": trained(points),
            "random weights": untrained(points),
            "polynomials": polynomials(points[0], sample.vectors.shape[1])[None],
            "closed form of its probes": best_of_probes(points[0], probes, sample.vectors.shape[1])[None],
        }
        name, _, rest = sample.shape.name.partition("__")
        base = {"shape": sample.shape.name, "group": name if rest else "", "domain": "surface"}
        for start, features in columns.items():
            vectors = batch.vectors(features)[0][0].cpu().numpy()
            rows.append(base | {"start": start, "stage": "feed-forward"} | agreement_by_level(vectors, sample.vectors))
    return rows


@recipe_kind("paper_generalisation", GeneralisationRecipe)
def _run(recipe: GeneralisationRecipe, out: Path, how: RunSettings) -> Path:
    """Train and write ``network.safetensors``, whose metadata rebuilds the network, and ``history.json``."""
    from safetensors.torch import save_file

    files = [] if recipe.meshes is None else find_shapes([recipe.meshes])
    samples = [Sample.of_file(file, recipe.points, recipe.k, recipe.seed) for file in files]
    module, history = amortise(recipe, how, samples)
    result, network = out / "network.safetensors", module.network.cpu()
    with atomic_path(result) as temporary:
        facts = {"network": json.dumps(network.describe())}  # type: ignore[operator]
        save_file({name: value.contiguous() for name, value in network.state_dict().items()}, temporary, facts)
    write_json(out / "history.json", history)
    return result
