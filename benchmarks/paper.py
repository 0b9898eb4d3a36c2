"""The paper's experiments its own way, on a machine with a GPU: without mesh libraries and without
the command line.

    python -m benchmarks.paper prepare MESHES... --data carried [--n 4000] [--names ...]
                               [--faces 40000 | --inside 40000]
    python -m benchmarks.paper overfit --data carried --names armadillo [--steps 12000]
    python -m benchmarks.paper controls --data carried [--names ...]
    python -m benchmarks.paper generalisation --data carried [--steps 400] [--text]
                               [--training MESHES.npz] [--clouds 60]
    python -m benchmarks.paper unseen_controls MESHES...
    python -m benchmarks.paper images_network TABLES... --steps 10000 --seconds 150
    python -m benchmarks.paper images TABLES... [--runs 32] [--steps 10000] [--state FOLDER]
    python -m benchmarks.paper together --data carried --device cuda --seconds 500
    python -m benchmarks.paper merge --state FOLDER
    python -m benchmarks.paper figure --state FOLDER --data carried

Results go to $OUT or benchmarks/results.  With `--state FOLDER` a run keeps its checkpoints there
and a second command goes on with it; with `--seconds` it stops so long after its start and is
measured at the step it has reached.  `--budget` is the training time of all commands together: the
rate falls with the share of it that is used up where that is ahead of the steps, so that a run cut
short ends at the lowest rate too.  With `--clouds` a batch is so many, its gradients are not
gathered, and a GPU replays the network as a graph.

controls   no training: the closed form of the paper's probes, with its range of sigma and with one
images     probes tuned on the even rows of each table and measured on the odd ones: their closed
           form and, with `--steps` or from `--state`, the network trained on them
together   what asks for a GPU: shapes on faces, their variants (one sigma, learned probes, seeds, a
           solid), then the networks of the tables of features
merge      one paper_overfit.json of those of the shapes in the folder, and paper_variants.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import parallel_config

from benchmarks.catalogue import ROOT
from benchmarks.deadline import BEGAN, Deadline
from benchmarks.record import best_device, earlier, existing, facts, results_file, write
from benchmarks.trained_probes import train_and_measure
from eigenprobe import Basis, geometry
from eigenprobe.extensions import NetworkExtension
from eigenprobe.geometry.draws import sample_volume
from eigenprobe.host.files import plain, reading_npz, write_npz
from eigenprobe.io.tables import read_table
from eigenprobe.points import Frame
from eigenprobe.training import RunSettings
from eigenprobe_lab.evaluation.areas import nearest_sample_areas
from eigenprobe_lab.evaluation.fitted import SAMPLE_SEED
from eigenprobe_lab.evaluation.grid import grid_oracle
from eigenprobe_lab.evaluation.reports import grouped, markdown, mean_row
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.evaluation.unseen import agreement_by_level
from eigenprobe_lab.paper.generalisation import (
    TEXT,
    GeneralisationRecipe,
    amortise,
    framed_sample,
    unseen,
)
from eigenprobe_lab.paper.images import Images, Protocol, summarise
from eigenprobe_lab.paper.images_recipe import (
    TUNED,
    ImagesRecipe,
    closed_form,
    feed_forward,
    learn_rows,
    tune,
)
from eigenprobe_lab.paper.overfit import (
    SETTINGS,
    Estimators,
    best_of_probes,
    coordinates_left,
    learn_their_way,
    measure_bases,
    shortened,
)
from eigenprobe_lab.paper.published import FACES, collection, single_shape
from eigenprobe_lab.paper.reproduction import CLOSED, ORACLE, THEIRS

COLUMNS = (
    "cosine_10",
    "cosine_20",
    "cosine_50",
    "discrepancy",
    "discrepancy_fixed",
    "discrepancy_rayleigh",
)
ALONE = (
    0.034,
)  # single bandwidths beside the range: about a spacing of 4000 points in the unit sphere
ABLATED = ("botijo_faces", "elephant_faces", "pegaso_faces")
VARIANTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("sigma", ABLATED, ("--sigma", str(ALONE[0]))),
    ("task", ABLATED, ("--learn", "task")),
    ("descent", ABLATED[:1], ("--learn", "descent")),
    ("ascent", ABLATED[:1], ("--learn", "ascent")),
    ("seed1", ABLATED[:2], ("--seed", "1")),
    ("seed2", ABLATED[:2], ("--seed", "2")),
    ("inside", ("kitten_inside",), ()),
)
COLUMNS += ("mass_correlation", "mass_correlation_adaptive", "steps", "seconds")


def prepare(o: argparse.Namespace) -> None:
    """One npz per shape, as `Sample.save` writes it."""
    o.data.mkdir(parents=True, exist_ok=True)
    for path in (
        path for path in o.meshes if path.suffix == ".npz"
    ):  # a table of features: its development rows
        table = read_table(path)
        x, y = np.asarray(table.features)[0::2], np.asarray(table.labels)[0::2]
        write_npz(o.data / path.name, {"features": x, "labels": y}, compressed=True)
    for path in geometry.find_shapes([path for path in o.meshes if path.suffix != ".npz"]):
        if o.names and path.stem not in o.names:
            continue
        shape = geometry.load(path)
        if shape.n < min(o.n, 1500):
            continue
        if o.inside:
            drawn_inside(shape, o).save(o.data / f"{path.stem}_inside.npz")
            continue
        if o.faces:
            drawn_on_faces(shape, o).save(o.data / f"{path.stem}_faces.npz")
            continue
        sample = Sample.on_surface(shape, min(o.n, shape.n), o.k, 0 if o.n == 1500 else SAMPLE_SEED)
        if o.n == 1500:  # unseen shapes: nothing but the points compared is needed
            small = geometry.Shape(sample.points, None, shape.name)
            sample = replace(sample, shape=small, indices=range(o.n))
        sample.save(o.data / f"{path.stem}.npz")


def drawn_on_faces(shape: geometry.Shape, o: argparse.Namespace) -> Sample:
    """Samples of points drawn evenly on the faces, in place of the vertices: for meshes whose
    vertices are uneven.
    """
    exact, drawn = (
        geometry.oracle(shape.vertices, shape.faces, o.k),
        geometry.draw_surface(shape, o.faces, SAMPLE_SEED),
    )
    indices = geometry.farthest_points(drawn.points, o.n, SAMPLE_SEED)
    cloud = geometry.Shape(drawn.points, None, f"{shape.name}_faces")
    vectors, points = drawn.interpolate(shape, exact.vectors)[indices], drawn.points[indices]
    return Sample(
        cloud, points, vectors, exact.eigenvalues, indices, nearest_sample_areas(shape, points)
    )


def drawn_inside(shape: geometry.Shape, o: argparse.Namespace) -> Sample:
    """Samples of points drawn evenly inside a closed surface."""
    points = sample_volume(shape, o.inside, SAMPLE_SEED)
    indices = geometry.farthest_points(points, o.n, SAMPLE_SEED)
    exact = grid_oracle(shape, points[indices], o.k)
    cloud = geometry.Shape(points, None, f"{shape.name}_inside")
    return Sample(cloud, points[indices], *exact, indices, np.full(o.n, 1 / o.n))


def about(o: argparse.Namespace) -> dict[str, Any]:
    """The facts of a run; checkpoints, which other processes are writing, are no data."""
    return facts("paper", o.device, vars(o) | {"state": str(o.state) if o.state else None})


def how(o: argparse.Namespace, name: str) -> tuple[RunSettings, Deadline]:
    """How to run, with a folder of its own under `--state`; and the clock."""
    deadline = Deadline(o.seconds, o.budget)
    folder = o.state / name if o.state else None
    flags = {"callbacks": [deadline]}
    return RunSettings(
        folder, device=o.device, checkpoint_every=500, logs=False, flags=flags
    ), deadline


def overfit(o: argparse.Namespace) -> None:
    settings = replace(
        SETTINGS, preset=o.preset or SETTINGS.preset, size=o.size or SETTINGS.size, seed=o.seed
    )
    settings = shortened(settings, o.steps or None)
    assert settings.optimisation is not None and settings.probes.paper is not None
    paper = settings.probes.paper
    if o.probes or o.sigma:
        paper = replace(paper, count=o.probes or paper.count, sigma=o.sigma or paper.sigma)
        settings = replace(settings, probes=replace(settings.probes, paper=paper))
    kind = f"variant_{o.variant}" if o.variant else "overfit"
    for name in o.names or [path.stem for path in prepared(o)]:
        if finished(f"paper_{kind}_{name}.json", settings.optimisation.steps):
            continue
        run, clock = how(o, f"{o.variant}_{name}" if o.variant else name)
        run, sample = replace(run, validate_every=o.every), Sample.load(o.data / f"{name}.npz", o.k)
        if o.bare or o.learn:
            kept = results_file(f"paper_{kind}_{name}.npz")
            rows = train_and_measure(sample, o.learn or None, o.k, settings, run, kept)
        else:
            rows = learn_their_way(sample, o.k, settings, run)
        rows[0] |= {"seconds": clock.spent}
        found = about(o) | {"schedule": o.tag, "settings": str(settings), "rows": rows}
        write(f"paper_{kind}_{name}.json", found)


def controls(o: argparse.Namespace) -> None:
    """The closed form of the probes, with the range of sigma and with one, and the oracle's
    vectors; no training.
    """
    paper, rows = SETTINGS.probes.paper, []
    assert paper is not None
    for path in prepared(o):
        if (o.names and path.stem not in o.names) or (
            o.seconds and time.monotonic() - BEGAN > o.seconds
        ):
            continue
        sample = Sample.load(path, o.k)
        frame = Frame.of(
            torch.as_tensor(sample.shape.vertices, dtype=torch.float32, device=o.device)
        )
        local = frame(torch.as_tensor(sample.points, device=o.device), torch.float32)
        kinds = {
            "closed form of its probes": paper,
            **{f"sigma {s:g} alone": replace(paper, sigma=s) for s in ALONE},
        }
        bases = {name: best_of_probes(local, probes, o.k) for name, probes in kinds.items()}
        rows += measure_bases(sample, local, bases, o.seed)
        print(f"{path.stem} after {time.monotonic() - BEGAN:.0f} s", flush=True)
    write("paper_controls.json", about(o) | {"rows": rows})
    print(
        markdown(
            [
                mean_row(group, COLUMNS, method=name)
                for (name,), group in grouped(rows, "method").items()
            ]
        )
    )


def prepared(o: argparse.Namespace) -> list[Path]:
    """The files of the data folder; a measurement without its data fails."""
    if not (files := sorted(o.data.glob("*.npz"))):
        raise SystemExit(
            f"benchmarks.paper: no samples in {o.data}: "
            "run 'python -m benchmarks.paper prepare' first"
        )
    return files


def finished(name: str, steps: int) -> bool:
    """Whether an earlier command has taken all steps and measured."""
    path = results_file(name)
    return path.is_file() and json.loads(path.read_text())["rows"][0]["steps"] >= steps


def generalisation(o: argparse.Namespace) -> None:
    small = {} if not o.preset else {"preset": o.preset, "clouds": 4, "points": 300, "chunk": 16}
    recipe = GeneralisationRecipe(
        steps=o.steps or 2000, k=o.k, validate_every=o.every, training=o.training, **small
    )
    recipe = replace(recipe, **TEXT) if o.text else recipe
    if o.clouds:
        recipe = replace(recipe, clouds=o.clouds, accumulate=1)
    samples = [Sample.load(path, o.k) for path in prepared(o)]
    torch.backends.mha.set_fastpath_enabled(False)  # its kernels are not those of the training
    run, clock = how(o, "generalisation")
    module, history = amortise(recipe, run, samples)
    rows = unseen(module, samples, recipe)
    found = {
        "n": len(samples[0].points),
        "k": o.k,
        "recipe": str(recipe),
        "steps": module.global_step,
    }
    found |= {"seconds": clock.spent}
    write(
        "paper_generalisation.json", {"facts": about(o) | found, "history": history, "rows": rows}
    )
    levels = [name for name in rows[0] if name.startswith("k<=")]
    means = [
        mean_row(group, levels, start=start, shapes=len(group))
        for (start,), group in grouped(rows, "start").items()
    ]
    print(markdown(means))


def unseen_controls(o: argparse.Namespace) -> None:
    """The closed form of the probes of the generalisation experiment, on the shapes of the paper's
    collections; what an earlier file has of them stays while it is confirmed."""
    rows, recipe = (
        earlier("paper_unseen_controls.json", about(o)["device"]).get("rows", []),
        GeneralisationRecipe(),
    )
    known = {row["shape"] for row in rows}
    for path in (
        path
        for path in geometry.find_shapes(o.meshes)
        if collection(path.stem) and path.stem not in known
    ):
        if (shape := geometry.load(path)).n < recipe.points:
            continue
        sample = Sample.on_surface(shape, recipe.points, o.k, recipe.seed)
        vectors = best_of_probes(framed_sample(sample)[0].points[0], recipe.probes, o.k).numpy()
        row = {
            "shape": sample.shape.name,
            "start": CLOSED,
            "stage": "feed-forward",
            "domain": "surface",
        }
        rows.append(row | agreement_by_level(vectors, sample.vectors))
    write("paper_unseen_controls.json", about(o) | {"rows": rows})


def images_network(o: argparse.Namespace) -> None:
    """Train the paper's network on all rows of tables that `prepare` wrote; TABLE.safetensors in
    $OUT is its basis.
    """
    for path in o.meshes:
        table = read_table(path)
        rows = Protocol().rows(np.asarray(table.features))
        recipe = ImagesRecipe(steps=o.steps, sample=min(5000, len(rows)), seed=o.seed)
        recipe, _ = tune(recipe, rows, np.asarray(table.labels))
        print(
            f"{path.stem}: {recipe.probe_distribution()} after {time.monotonic() - BEGAN:.0f} s",
            flush=True,
        )
        name = path.stem
        run, clock = how(o, name)
        basis = learn_rows(recipe, torch.from_numpy(rows).to(o.device), run)
        basis.info["training"] = about(o) | {"spent": clock.spent, "recipe": str(recipe)}
        function = basis.extension
        assert isinstance(function, NetworkExtension)
        # A pass over other rows takes nothing but the network: without the rows that it was trained
        # on, a small file.
        alone = NetworkExtension(
            function.network, function.inputs, function.context[:2], True, function.matrix
        )
        replace(basis, points=None, extension=alone).save(results_file(f"{name}.safetensors"))
        print(f"{name}: {basis.info['steps']} steps in {clock.spent:.0f} s", flush=True)


def images(o: argparse.Namespace) -> None:
    """The paper's way on tables of features, its probes tuned for each: one paper_images_TABLE.json
    each.
    """
    for path in o.meshes:
        table = read_table(path)
        x, y = np.asarray(table.features), np.asarray(table.labels)
        even, odd = Protocol().rows(x[0::2]), x[1::2]
        recipe = ImagesRecipe(steps=o.steps, sample=min(5000, len(even)), seed=o.seed)
        recipe, grid = tune(recipe, even, y[0::2])
        print(
            f"{path.stem}: {recipe.probe_distribution()} after {time.monotonic() - BEGAN:.0f} s",
            flush=True,
        )
        name = path.stem
        tuned = {key: getattr(recipe, key) for key in TUNED[2:]}
        before = earlier(f"paper_images_{name}.json", about(o)["device"]) if o.state else {}
        same = before.get("facts", {}).get("tuned") == tuned and before["facts"]["runs"] == o.runs
        kept = [row for row in before.get("rows", ()) if same and row["method"] == "probes"]
        given: dict[str, Any] = {} if kept else {"probes": partial(closed_form, recipe)}
        trained = o.state / f"{name}.safetensors" if o.state else None
        described: dict[str, Any] = {"table": path.stem, "rows": "odd", "runs": o.runs}
        described["tuned"] = tuned
        steps = o.steps
        if trained:
            basis = Basis.load(trained)
            described["training"], steps = basis.info["training"], basis.info["steps"]
            asked = replace(recipe, steps=described["training"]["options"]["steps"])
            if described["training"]["recipe"] != str(asked):
                raise SystemExit(
                    f"benchmarks.paper: {trained} was trained by another recipe than {asked}"
                )
            given["paper"] = partial(feed_forward, basis)
        for kind in ("paper", "untrained") if o.steps or trained else ():
            if kind not in given:
                taken = replace(recipe, steps=o.steps if kind == "paper" else 0)
                basis = learn_rows(
                    taken, torch.from_numpy(even).to(o.device), RunSettings(device=o.device)
                )
                given[kind] = partial(feed_forward, basis)
        with parallel_config(
            "threading"
        ):  # a network that lies on a device is not sent to other processes
            rows = summarise(Protocol(o.runs, methods=list(given)).records(odd, y[1::2], 1, given))
        rows = kept + [row | ({"steps": steps} if row["method"] == "paper" else {}) for row in rows]
        rows.sort(key=lambda row: row["k"])
        content = about(o) | {"facts": described, "grid": grid, "rows": rows}
        write(f"paper_images_{name}.json", plain(content))
        print(Images(rows).markdown(), flush=True)


def together(o: argparse.Namespace) -> None:
    """What asks for a GPU, in processes side by side that all end within `--seconds`: shapes first,
    then tables.

    With `--bare` only the shapes on faces of the folder, each trained the paper's way.
    """
    shapes = o.seconds - 30 if o.bare else 0.62 * o.seconds
    common = [
        "--data",
        o.data,
        "--state",
        o.state or "runs/gpu",
        "--device",
        o.device,
        "--seed",
        o.seed,
    ]
    small = [
        word
        for name in ("preset", "size", "probes")
        if getattr(o, name)
        for word in (f"--{name}", getattr(o, name))
    ]
    steps = [
        "--steps",
        o.steps or 4000,
        "--every",
        o.every,
        "--k",
        o.k,
        "--tag",
        "faces",
        "--bare",
        *small,
    ]
    limits = ["--seconds", int(shapes - 40), "--budget", max(1, int(0.8 * shapes - 30))]
    names = (
        [path.stem for path in prepared(o) if path.stem.endswith(FACES)]
        if o.bare
        else [*ABLATED, *o.names]
    )
    calls = [["overfit", "--names", name, *common, *steps, *limits] for name in names]
    if o.bare:
        return side_by_side(calls, o.seconds)
    for variant, names, more in VARIANTS:
        words = [*common, *steps, *limits, *more, "--variant", variant]
        calls += [["overfit", "--names", name, *words] for name in names]
    side_by_side(calls, shapes + 30)
    left = [
        "--seconds",
        int(o.seconds - (time.monotonic() - BEGAN) - 25),
        "--steps",
        o.steps or 10_000,
    ]
    tables = sorted(path for path in prepared(o) if not path.stem.endswith((FACES, "_inside")))
    networks = [["images_network", path, *common, *left] for path in tables]
    side_by_side(networks, o.seconds - (time.monotonic() - BEGAN))


def side_by_side(calls: list[list[Any]], seconds: float) -> None:
    """Run this module with each list of words, all at once; what is not done after ``seconds`` is
    ended.
    """
    where, began = (
        {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"},
        time.monotonic(),
    )
    running = []
    for number, words in enumerate(calls):
        command = [sys.executable, "-m", "benchmarks.paper", *map(str, words)]
        log = results_file(f"{words[0]}_{number:02d}.log").open("w")
        running.append(
            (command, subprocess.Popen(command, env=where, stdout=log, stderr=subprocess.STDOUT))
        )
    for command, process in running:
        try:
            code = process.wait(max(1.0, seconds - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            process.terminate()
            code = -1
        if code:
            print(f"failed ({code}): {' '.join(command[1:])}", flush=True)
    print(f"{len(calls)} runs after {time.monotonic() - BEGAN:.0f} s", flush=True)


def merge(o: argparse.Namespace) -> None:
    """One file of all shapes, each row with its own command; shapes that are not measured anew stay
    as they were.

    The estimates with the oracle's own vectors are left to `benchmarks.probes eigenvalues`.
    """
    folder = o.state or results_file("")
    paths = sorted(folder.glob("paper_overfit_*.json"))
    variants = [
        json.loads(path.read_text()) for path in sorted(folder.glob("paper_variant_*.json"))
    ]
    old = json.loads(results_file("paper_overfit.json").read_text())
    documents = [json.loads(path.read_text()) for path in paths]
    rows: list[dict[str, Any]] = []
    for document in documents:
        made = {key: document[key] for key in ("schedule", "command", "commit")}
        rows += [row | made for row in document["rows"] if row["method"] != ORACLE]
    known = {row["shape"] for row in rows}
    for row in (row for row in old["rows"] if row["shape"] not in known):
        if (
            "command" in row or row["method"] != CLOSED
        ):  # a closed form without its command was of drawn probes
            steps = next(
                each["steps"]
                for each in old["rows"]
                if each["shape"] == row["shape"] and each.get("steps")
            )
            by = "python -m benchmarks.paper overfit --data carried/overfit"
            by += f" --names {row['shape']} --steps {steps:.0f}"
            rows.append({"command": by, "commit": old["commit"], **row})
    rows.sort(key=lambda row: row["shape"])
    about = {
        key: value
        for key, value in (documents or [old])[0].items()
        if key not in ("rows", "schedule", "sample")
    }
    write(
        "paper_overfit.json", {**about, "command": "python -m benchmarks.paper merge", "rows": rows}
    )
    if variants:
        write_variants(variants, rows)
    if o.state and (controls := o.state / "paper_controls.json").is_file():
        found = json.loads(controls.read_text())
        write(
            "paper_controls.json",
            found | {"rows": [row for row in found["rows"] if row["method"] != ORACLE]},
        )
    theirs = [row for row in rows if row["method"] == THEIRS]
    table = [
        row | {f"paper_{key}": value for key, value in single_shape(row["shape"]).items()}
        for row in theirs
    ]
    print(
        markdown(
            table,
            [
                "shape",
                "schedule",
                "paper_cosine_10",
                "paper_cosine_20",
                "paper_cosine_50",
                *COLUMNS,
            ],
        )
    )
    print(
        markdown(
            [
                mean_row(group, COLUMNS, method=name)
                for (name,), group in grouped(rows, "method").items()
            ]
        )
    )


def write_variants(documents: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """One file of all: the networks trained with one thing changed, after those of the same shapes
    without.
    """
    chosen = [
        row | {"variant": "paper"}
        for row in rows
        if row["method"] == THEIRS and "coordinates_10" in row
    ]
    for document in documents:
        made = {key: document[key] for key in ("command", "commit")}
        chosen.append(document["rows"][0] | made | {"variant": document["options"]["variant"]})
    short = [{key: value for key, value in row.items() if key != "history"} for row in chosen]
    same = {
        key: value
        for key, value in documents[0].items()
        if key not in ("rows", "schedule", "sample")
    }
    write(
        "paper_variants.json",
        {**same, "command": "python -m benchmarks.paper merge", "rows": short},
    )


def figure(o: argparse.Namespace) -> None:
    """docs/images/paper.png: vectors of the network and of the oracle on a shape, eigenvalues, mass
    and coordinates.
    """
    import matplotlib.pyplot as plt

    (name,) = o.names or ABLATED[:1]
    sample = Sample.load(o.data / f"{name}.npz", o.k)
    with reading_npz(o.state / f"paper_overfit_{name}.npz") as archive:
        q = torch.as_tensor(archive["q"]).double()
    q = torch.linalg.qr(q).Q * q.sum(0).sign()[0]
    local = Frame.of(torch.as_tensor(sample.shape.vertices))(
        torch.as_tensor(sample.points), torch.float32
    )
    exact = torch.linalg.qr(torch.as_tensor(sample.vectors).double()).Q
    shown = (1, 4, 9, 19, 39)
    drawing = plt.figure(figsize=(12, 8), layout="constrained")
    for row, (title, basis) in enumerate({"the paper's way": q, "oracle": exact}.items()):
        for column, index in enumerate(shown):
            axes = drawing.add_subplot(
                3, len(shown), row * len(shown) + column + 1, projection="3d"
            )
            v = (basis[:, index] / basis[:, 0]).numpy()
            v = v * np.sign(v @ (exact[:, index] / exact[:, 0]).numpy())
            x, y, z = sample.points.T
            axes.scatter(
                x,
                z,
                y,
                c=v,
                s=2,
                cmap="coolwarm",
                vmin=-np.quantile(abs(v), 0.98),
                vmax=np.quantile(abs(v), 0.98),
            )
            axes.set(title=f"{title}, vector {index + 1}", aspect="equal")
            axes.axis("off")
    values = Estimators(sample, local, o.k, 0)
    panels = drawing.subfigures(3, 1)[2].subplots(1, 3)
    panels[0].plot(sample.eigenvalues, "k", label="oracle")
    for label, basis in {
        "network, largest errors": q,
        "oracle's vectors, largest errors": exact,
    }.items():
        panels[0].plot(values.spectra(basis)["tuned"], label=label)
    panels[0].set(title="eigenvalues", xlabel="k")
    panels[0].legend()
    panels[1].scatter(sample.areas / sample.areas.mean(), (q[:, 0].square() * len(q)).numpy(), s=2)
    panels[1].set(title="mass", xlabel="area over its mean", ylabel="learned mass over its mean")
    levels = range(2, o.k + 1)
    for label, basis in {"network": q, "oracle": exact}.items():
        panels[2].semilogy(
            levels, [coordinates_left(basis[:, :k], sample.points) for k in levels], label=label
        )
    panels[2].set(title="coordinates not rebuilt", xlabel="vectors")
    panels[2].legend()
    target = ROOT / "docs" / "images" / "paper.png"
    drawing.savefig(target, dpi=80)
    print(f"written to {target}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        choices=[
            "prepare",
            "overfit",
            "controls",
            "generalisation",
            "unseen_controls",
            "images_network",
            "images",
        ]
        + ["together", "merge", "figure"],
    )
    parser.add_argument("meshes", type=existing, nargs="*")
    parser.add_argument("--data", type=Path, default=Path("carried"))
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument(
        "--state", type=Path, help="folder of checkpoints, and of the files to merge"
    )
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--preset", default="", help="a smaller network, to try it")
    parser.add_argument("--tag", default="full")
    parser.add_argument("--text", action="store_true", help="unseen shapes as the text has it")
    parser.add_argument("--training", type=existing, help="npz of meshes to train on")
    parser.add_argument(
        "--bare", action="store_true", help="of the controls only the oracle's vectors"
    )
    parser.add_argument(
        "--variant", default="", help="a name: written to paper_variant_NAME_SHAPE.json"
    )
    parser.add_argument(
        "--learn", default="", choices=["", "descent", "ascent", "task"], help="of trained_probes"
    )
    for name, value in {
        "n": 4000,
        "faces": 0,
        "k": 50,
        "steps": 0,
        "seconds": 0,
        "budget": 0,
        "every": 500,
        "size": 0,
        "probes": 0,
        "seed": 0,
        "runs": 32,
        "inside": 0,
        "clouds": 0,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--sigma", type=float, default=0.0, help="one bandwidth in place of the paper's range"
    )
    o = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*Sparse CSR tensor support.*")
    globals()[o.what](o)


if __name__ == "__main__":
    main()
