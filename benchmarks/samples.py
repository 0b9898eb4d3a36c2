"""Small samples of the measurements, by which a file of results is confirmed without measuring it
again.

    take("decomposition", n=600, k=12)  ->  {"of": ..., "inputs": ..., "tolerance": ..., "numbers":
    {name: [...]}} agrees(block)                       ->  whether the same inputs give the same
    numbers today

A sample calls what its benchmark calls, on a small input that is made here from a seed: some
seconds on two cores, no data, no GPU. It sees what is computed, wherever the code lies and whatever
it is called. It does not see how fast it is: a file of times is confirmed to have timed the same
answer.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch

TOLERANCE = (
    1e-3  # of the largest number of an entry: other processors and libraries round differently
)
TRAINED = 0.02  # the same after some steps of training, which magnify rounding
Numbers = dict[str, Any]


def blob(n: int, seed: int) -> np.ndarray:
    """Random points of a bumpy sphere ``(n, 3)``."""
    x = np.random.default_rng(seed).normal(size=(n, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x * (1 + 0.25 * np.sin(3 * x[:, :1]) + 0.2 * x[:, 1:2] * x[:, 2:]) * [1.0, 0.8, 0.6]


def creature() -> Path:
    """The mesh that the package ships."""
    return Path(str(files("eigenprobe.datasets") / "creature.ply"))


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three noisy clusters ``(n, 24)`` and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return (rng.normal(size=(n, 24)) + 5 * np.eye(24)[labels]).astype(np.float32), labels


def decomposition(n: int, k: int, seed: int = 0) -> Numbers:
    from eigenprobe import decompose

    basis = decompose(blob(n, seed), k)
    return {"eigenvalues": basis.eigenvalues, "mass": np.sort(basis.mass)[:: n // 10]}


def noisy(n: int, k: int, seed: int = 0) -> Numbers:
    from benchmarks.noisy import cloud
    from eigenprobe import decompose

    rng = np.random.default_rng(seed)
    x = cloud("torus", n, rng) + 0.01 * rng.standard_normal((n, 3))
    return {"eigenvalues": decompose(x, k).eigenvalues}


def uncertainty(n: int, k: int, seed: int = 0) -> Numbers:
    from eigenprobe import decompose

    found = decompose(blob(n, seed), k).uncertainty
    return {"eigenvalues": found.eigenvalues, "vectors": found.vectors}


def operators(n: int, seed: int = 0) -> Numbers:
    import eigenprobe as ep

    x = blob(n, seed)
    laplacian, mass = ep.laplacian(x)
    return {
        "energy": [float(c @ (laplacian @ c)) for c in x.T],
        "mass": [float(mass.sum())],
        "distances": ep.apps.geodesic_distance(x, 0)[:: n // 10],
        "descriptor": ep.apps.shape_dna(ep.decompose(x, 12)),
    }


def alignment(n: int, k: int, methods: tuple[str, ...] = ("direct",), seed: int = 0) -> Numbers:
    from eigenprobe_lab.evaluation.surfaces import Measure

    found, _ = Measure(methods, n, k, seed)(creature())
    return {
        row["method"]: [row[f"cosine_{k}"], row["discrepancy"], row["mass_correlation"]]
        for row in found
    }


def neighbours(n: int, seed: int = 0) -> Numbers:
    from eigenprobe_lab.evaluation.neighbours import NeighbourMeasure

    found, _ = NeighbourMeasure((n,), (0.0, 0.01), seed=seed)(creature())
    named = {f"{row['neighbours']}, noise {row['noise']}": row for row in found}
    return {
        name: [row["cosine_10"], row["cosine_20"], row["discrepancy"]]
        for name, row in named.items()
    }


def scans(n: int, kinds: tuple[str, ...], seed: int = 0) -> Numbers:
    from eigenprobe_lab.evaluation.scans import ScanMeasure

    measure = ScanMeasure(kinds, (5, 10), n, seed)
    found = [row for kind in kinds for row in measure(creature(), kind)[0]]
    measures = ("cosine_10", "near_10", "eigenvalues")
    return {f"{row['cloud']}, {row['method']}": [row[name] for name in measures] for row in found}


def _probes(part: str, n: int, k: int, steps: int, seed: int) -> Numbers:
    """A part of `benchmarks.probes` on the mesh that the package ships."""
    from benchmarks import probes
    from eigenprobe_lab.evaluation.samples import Sample

    options = argparse.Namespace(n=n, k=k, steps=steps)
    found = getattr(probes, part)(Sample.of_file(creature(), n, k, seed), options)
    return {
        next(iter(row.values())): [x for x in row.values() if isinstance(x, float) and x == x]
        for row in found
    }


def probes_mass(n: int, k: int, steps: int, seed: int = 0) -> Numbers:
    return _probes("mass", n, k, steps, seed)


def probes_losses(n: int, k: int, steps: int, seed: int = 0) -> Numbers:
    return _probes("losses", n, k, steps, seed)


def unseen(n: int, k: int, seed: int = 0) -> Numbers:
    from eigenprobe import SpectralModel
    from eigenprobe_lab.evaluation.pretrained import Comparison

    model = SpectralModel.from_pretrained("surface")
    found, _ = Comparison(model, n, k, seed, volumes=0)(creature())
    return {f"{row['start']}, {row['stage']}": [row["k<=5"], row["k<=10"]] for row in found}


def unseen_controls(n: int, k: int, seed: int = 0) -> Numbers:
    from eigenprobe_lab.evaluation.unseen import agreement_by_level
    from eigenprobe_lab.paper.generalisation import GeneralisationRecipe, framed_sample
    from eigenprobe_lab.paper.overfit import best_of_probes

    sample = shape_sample(n, k, seed)
    points = framed_sample(sample)[0].points[0]
    vectors = best_of_probes(points, GeneralisationRecipe().probes, k).numpy()
    return {"cosines": list(agreement_by_level(vectors, sample.vectors).values())}


def paper_images(n: int, steps: int, seed: int = 0) -> Numbers:
    from eigenprobe.training import RunSettings
    from eigenprobe_lab.paper.images import Protocol, summarise
    from eigenprobe_lab.paper.images_recipe import (
        ImagesRecipe,
        closed_form,
        feed_forward,
        learn_rows,
        tune,
    )

    x, labels = rows(n, seed)
    sizes = {"width": 32, "heads": 4, "sample": n, "probes": 40, "accumulate": 1, "vectors": 6}
    recipe, grid = tune(ImagesRecipe(steps=steps, seed=seed, **sizes), x, labels)
    basis = learn_rows(recipe, torch.from_numpy(x), RunSettings(device="cpu", logs=False))
    given = {"paper": partial(feed_forward, basis), "probes": partial(closed_form, recipe)}
    found = summarise(Protocol(1, n, (2, 5), list(given), seed).records(x, labels, 1, given))
    scores = {f"{row['method']}, k = {row['k']}": [row["nmi"], row["ari"]] for row in found}
    return scores | {"tuned": [row["nmi"] for row in grid]}


def probes_learned(n: int, k: int, seed: int = 0) -> Numbers:
    return _probes("learned", n, k, 0, seed)


def loss(n: int, k: int, m: int, seed: int = 0) -> Numbers:
    from eigenprobe.probes.covariance import Covariance
    from eigenprobe.probes.objective import expected_errors, first_mass, prefix_errors
    from eigenprobe.smoothers import build_smoother

    generator = torch.Generator().manual_seed(seed)
    smoother = build_smoother(torch.as_tensor(blob(n, seed)), "adaptive", dimension=2)
    probe = smoother.power(torch.randn(n, m, generator=generator, dtype=torch.float64), 10)
    q = torch.linalg.qr(torch.randn(n, k, generator=generator, dtype=torch.float64)).Q
    q[:, 0] = q[:, 0].abs() + 0.01
    covariance, mass = Covariance(smoother, {20: 1.0}), first_mass(q)
    expected = expected_errors(q, covariance.apply, covariance.trace(), mass)
    return {"sampled": prefix_errors(q, probe, mass).mean(-1), "expected": expected}


def fit(n: int, k: int, steps: int, seed: int = 0) -> Numbers:
    from eigenprobe import decompose

    basis = decompose(blob(n, seed), k, method="network", steps=steps, seed=seed)
    return {"eigenvalues": basis.eigenvalues}


def shape_sample(n: int, k: int, seed: int) -> Any:
    """A blob with some smooth functions in place of an oracle."""
    from eigenprobe.io.shapes import Shape
    from eigenprobe_lab.evaluation.samples import Sample

    x = blob(n, seed)
    functions, values = np.cos(np.outer(x[:, 0], np.arange(k))), np.arange(k, dtype=float)
    return Sample(Shape(x, None, "blob"), x, functions, values, np.arange(n), np.full(n, 1 / n))


def image_loss(n: int, seed: int = 0) -> Numbers:
    from benchmarks.image_loss import minimise, unit
    from eigenprobe_lab.paper.images_recipe import ImagesRecipe
    from eigenprobe_lab.paper.overfit import covariance

    x, labels = rows(n, seed)
    recipe = ImagesRecipe(neighbours=10, sigma=0.4, smoothing_steps=10)
    found = minimise(covariance(unit(x), recipe.probe_distribution()), labels, 5)
    return {row["features"]: [row["loss"], row["NMI of Q"]] for row in found}


def eigenvalues(n: int, k: int, m: int, seed: int = 0) -> Numbers:
    from benchmarks.eigenvalues import measure

    found = measure(shape_sample(n, k, seed), m, "cpu")
    named = ("published triple", "fixed triple", "best triple")
    return {f"{row['one over']}, {row['factor']}": [row[key] for key in named] for row in found}


def paper_released(n: int, k: int, steps: int, seed: int = 0) -> Numbers:
    from eigenprobe_lab.paper.released import PROBES, SCHEDULE, learn_released

    probes, schedule = replace(PROBES, count=60), replace(SCHEDULE, steps=steps)
    sizes = {"width": 32, "layers": 2, "heads": 4}
    found = learn_released(
        shape_sample(n, k, seed), k, schedule=schedule, probes=probes, points=n, seed=seed, **sizes
    )
    return {row["method"]: [row[f"cosine_{k}"], row["discrepancy"]] for row in found}


def paper_overfit(n: int, k: int, steps: int, seed: int = 0) -> Numbers:
    from eigenprobe.probes.probes import Probes
    from eigenprobe_lab.paper.overfit import SETTINGS, learn_their_way

    sample = shape_sample(n, k, seed)
    paper = Probes(60, steps=10, k=10, sigma=(0.05, 0.3))
    settings = replace(
        SETTINGS,
        preset="tiny",
        size=n,
        steps=steps,
        seed=seed,
        optimisation=None,
        probes=replace(SETTINGS.probes, paper=paper),
    )
    found = learn_their_way(sample, k, settings)
    return {row["method"]: [row[f"cosine_{k}"], row["discrepancy"]] for row in found}


def paper_generalisation(n: int, k: int, steps: int, seed: int = 0) -> Numbers:
    from eigenprobe.training import RunSettings
    from eigenprobe_lab.paper.generalisation import TEXT, GeneralisationRecipe, amortise

    recipe = GeneralisationRecipe(
        steps, k=k, points=n, clouds=2, chunk=4, preset="tiny", validate_every=0, seed=seed, **TEXT
    )
    module, _ = amortise(recipe, RunSettings(device="cpu", logs=False), [])
    x = torch.as_tensor(blob(n, seed), dtype=torch.float32)
    with torch.no_grad():
        features = module.network(x[None])[0]
    return {"singular values": torch.linalg.svdvals(features)}


def toy(steps: int, seed: int = 0) -> Numbers:
    from eigenprobe_lab.paper.toy1d import FUNCTIONS, ToyRecipe, toy1d

    found = toy1d(ToyRecipe(seed, steps, 2000)).rows
    return {row["loss"]: [row[name] for name in FUNCTIONS] for row in found}


def table(n: int, k: int, seed: int = 0) -> Numbers:
    from eigenprobe import OptimalApproximationEigenmaps

    x, _ = rows(n, seed)
    model = OptimalApproximationEigenmaps(k, random_state=seed).fit(x)
    placed = model.transform(rows(n, seed + 1)[0])
    return {
        "eigenvalues": model.eigenvalues_,
        "spread": np.abs(model.embedding_).mean(0),
        "new": np.abs(placed).mean(0),
    }


def layout(n: int, k: int, seed: int = 0) -> Numbers:
    from eigenprobe import OptimalApproximationEigenmaps
    from eigenprobe_lab.evaluation.clustering import kmeans_scores, trustworthiness

    x, labels = rows(n, seed)
    y = OptimalApproximationEigenmaps(k, random_state=seed).fit(x).layout_
    scores = [kmeans_scores(y, labels)["nmi"], trustworthiness(x, y)]
    between = np.linalg.norm(
        np.diff(y[:9], axis=0), axis=1
    )  # consecutive rows, of the same group or of others
    return {
        "scores": scores,
        "extent": np.linalg.svd(y - y.mean(0), compute_uv=False),
        "between": between,
    }


def clusters(n: int, methods: tuple[str, ...], seed: int = 0) -> Numbers:
    from eigenprobe_lab.paper.images import Protocol, summarise

    x, labels = rows(n, seed)
    found = summarise(Protocol(1, n // 2, (2, 5), methods, seed).records(x, labels))
    return {
        f"{row['method']}, k = {row['k']}": [row["nmi"], row["ari"], row["trustworthiness"]]
        for row in found
    }


SAMPLES: dict[str, Callable[..., Numbers]] = {
    call.__name__: call
    for call in (
        decomposition,
        noisy,
        uncertainty,
        operators,
        alignment,
        neighbours,
        scans,
        probes_mass,
        probes_losses,
        unseen,
        unseen_controls,
        paper_images,
        probes_learned,
        loss,
        fit,
        paper_overfit,
        paper_released,
        paper_generalisation,
        eigenvalues,
        image_loss,
        toy,
        table,
        layout,
        clusters,
    )
}
TRAINS = ("fit", "image_loss", "paper_overfit", "paper_released", "paper_generalisation", "toy")
TOLERANCES = dict.fromkeys(
    (*TRAINS, "layout", "paper_images", "probes_losses", "probes_mass"), TRAINED
)


def take(of: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The block that a file of results keeps."""
    numbers = json.loads(_numbers(of, json.dumps(dict(inputs), sort_keys=True)))
    return {
        "of": of,
        "inputs": dict(inputs),
        "tolerance": TOLERANCES.get(of, TOLERANCE),
        "numbers": numbers,
    }


def agrees(block: Mapping[str, Any]) -> bool:
    """Whether the inputs of a block give its numbers today: within its tolerance of the largest
    number of an entry.
    """
    if block["of"] not in SAMPLES:
        return False
    today, before = take(block["of"], block["inputs"])["numbers"], block["numbers"]
    return today.keys() == before.keys() and all(
        _near(today[name], before[name], block["tolerance"]) for name in today
    )


def _near(a: list[float], b: list[float], tolerance: float) -> bool:
    return len(a) == len(b) and bool(
        np.allclose(a, b, rtol=0, atol=tolerance * max(map(abs, b), default=0))
    )


@cache
def _numbers(of: str, inputs: str) -> str:
    """As JSON, once per process: files share samples."""
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in json.loads(inputs).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = SAMPLES[of](**given)
    plain = {
        name: [float(f"{float(value):.7g}") for value in values] for name, values in found.items()
    }
    return json.dumps(plain)
