"""Tables made of several files of results: the README's claims, and the paper's experiments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.catalogue import made_by
from benchmarks.shown import COSINES, LEVELS, Document, evaluation
from eigenprobe.host.tables import grouped, markdown
from eigenprobe_lab.evaluation.clustering import METRICS
from eigenprobe_lab.evaluation.unseen import Generalisation
from eigenprobe_lab.paper.images import FITTED
from eigenprobe_lab.paper.images_recipe import ImagesRecipe
from eigenprobe_lab.paper.published import (
    COLLECTIONS,
    DIFFERENT,
    FACES,
    GENERALISATION,
    NINE,
    PAPER,
    collection,
    single_shape,
)
from eigenprobe_lab.paper.published import table as published_table
from eigenprobe_lab.paper.reproduction import CONTROL, REASONS, THEIRS, cell, image_lines, line, unseen_lines
from eigenprobe_lab.paper.toy1d import LOSSES


def headlines(results: Path) -> str:
    """The README's table: one line per claim, ours beside the paper and beside the nearest other method."""

    def read(name: str) -> Document:
        return json.loads((results / name).read_text())

    def joined(values: Iterable[float]) -> str:
        return " / ".join(f"{value:.3f}" for value in values)

    means = {(row["over"], row["method"]): row for row in evaluation(read("surfaces.json")).means()}
    ours, robust = means[PAPER.group, "direct"], means[PAPER.group, "robust"]
    whole, theirs = means["all", "direct"], means["all", "robust"]
    unseen = Generalisation(read("generalisation_mpz14.json")["rows"], published=GENERALISATION)
    count = len({row["shape"] for row in unseen.rows if row["domain"] == "surface"})
    alone = {row["start"]: [row[f"k<={k}"] for k in LEVELS] for row in unseen.means() if row["stage"] == "feed-forward"}
    tables = [read(path.name) for path in sorted(results.glob("images*.json"))]
    nmi: dict[str, list[float]] = {row["method"]: [] for table in tables for row in table["rows"]}
    for row in (row for table in tables for row in table["rows"] if row["k"] == 10):
        nmi[row["method"]].append(row["nmi"])
    names = ", ".join(table["facts"]["table"].split("_")[0] for table in tables)
    samplings: dict[str, dict[str, list[float]]] = {"uniform": {}, "class-weighted": {}}
    for row in read("maps.json")["parts"]["coordinates"]:
        if row["table"].split("_")[0] in names:
            found = samplings["uniform" if row["rows"] == "uniform" else "class-weighted"]
            found.setdefault(row["method"], []).append(row["k-means ARI"])
    cpu, gpu = (
        next(table["rows"] for table in read(f"direct_{kind}.json")["tables"] if table["n"] == 100_000)
        for kind in ("cpu", "cuda")
    )
    lines = [
        (
            "|cosine| with the mesh oracle, `direct`, nine shapes; k ≤ 10 / 20 / 50",
            joined(ours[key] for key in COSINES),
            joined(ours[f"paper_{key}"] for key in COSINES),
            "robust_laplacian " + joined(robust[key] for key in COSINES),
        ),
        (
            f"the same, all {whole['shapes']} shapes of the collection (see below)",
            joined(whole[key] for key in COSINES),
            joined(whole[f"paper_{key}"] for key in COSINES),
            "robust_laplacian " + joined(theirs[key] for key in COSINES),
        ),
        (
            f"relative error of the eigenvalues, nine shapes; all {whole['shapes']}",
            joined([ours["discrepancy"], whole["discrepancy"]]),
            joined([ours["paper_discrepancy"], whole["paper_discrepancy"]]),
            "robust_laplacian " + joined([robust["discrepancy"], theirs["discrepancy"]]),
        ),
        (
            f"|cosine|, pretrained, {count} unseen shapes, feed-forward only; k ≤ 10 / 20 / 50",
            joined(alone["network"]),
            joined(alone["the paper, MPZ14"]),
            "its inputs alone " + joined(alone["its inputs alone"]),
        ),
        (
            f"NMI of k-means in 10 coordinates, class-weighted rows; {names}",
            joined(nmi["direct"]),
            None,
            "UMAP " + joined(nmi["umap"]),
        ),
        *(
            (
                f"ARI of the same, {rows} rows; {names}",
                joined(ari["10 coordinates"]),
                None,
                "UMAP " + joined(ari["UMAP in 10"]),
            )
            for rows, ari in samplings.items()
        ),
        (
            "seconds for 50 vectors of 100 000 points, two cores (H200)",
            f"{cpu['direct']['seconds']:.1f} ({gpu['direct']['seconds']:.1f})",
            None,
            f"robust_laplacian {cpu['robust_laplacian']['seconds']:.1f}",
        ),
    ]
    return markdown([dict(zip(("", "eigenprobe", "the paper", "other"), line, strict=True)) for line in lines])


def experiments(results: Path) -> str:
    """Each experiment of the paper: published, its own way here, control, ours, reason; words where no number is."""

    def rows(name: str) -> list[Document]:
        return json.loads((results / name).read_text())["rows"] if (results / name).is_file() else []

    def made(name: str) -> str:
        return f"`{made_by(name).command}`"

    toy, functions = rows("toy1d.json"), ("cos pi x", "cos 2 pi x", "cos 3 pi x", "cos 4 pi x")
    losses = [cell(toy, functions, loss=name) for name in LOSSES.values()]
    about = ("|cosine| with cos πx, 2πx, 3πx, 4πx", "the interval", "a figure, no numbers")
    table = [line(*about, losses[0], "the expected loss: ours", losses[1], REASONS["toy"], made("toy1d.json"))]
    overfit, controls, surfaces = (rows(f"{name}.json") for name in ("paper_overfit", "paper_controls", "surfaces"))
    on = ", on vertices"  # ours is measured there alone
    for data, end in (("vertices", ""), ("drawn on the faces", FACES)):
        shapes = [n for n in NINE if not end or any(r["shape"] == n + end and r["method"] == THEIRS for r in overfit)]
        found = [row for row in overfit if row["shape"] in [name + end for name in shapes]]
        best = [row for row in controls if row["shape"] in [name + end for name in shapes]]
        table.append(
            line(
                "one shape, |cosine| k ≤ 10 / 20 / 50",
                f"{len(shapes)} shapes, {data}",
                cell([single_shape(name) for name in shapes], COSINES, "none"),
                cell(found, COSINES, method=THEIRS),
                cell(best, COSINES, method=CONTROL),
                cell([row for row in surfaces if row["shape"] in shapes], COSINES, method="direct")
                + (on if end else ""),
                REASONS["shape"] if not end else _short(found, len(NINE) - len(shapes)),
                made("paper_overfit.json"),
            )
        )
    one = [row for row in rows("paper_variants.json") if row["variant"] == "sigma"]
    if one:
        shapes = [row["shape"] for row in one]
        same = [r for r in rows("paper_variants.json") if r["shape"] in shapes and r["variant"] == "paper"]  # as long
        table.append(
            line(
                "the same, one sigma of .034 in place of the range",
                ", ".join(shape.removesuffix(FACES) for shape in shapes) + ", drawn on the faces",
                cell([single_shape(name) for name in shapes], COSINES, "none"),
                cell(one, COSINES),
                cell([row for row in controls if row["shape"] in shapes], COSINES, method="sigma 0.034 alone"),
                cell([row for row in surfaces if row["shape"] + FACES in shapes], COSINES, method="direct") + on,
                f"with the range {cell(same, COSINES)}{_sooner(rows('paper_variants_short.json'), shapes)}",
                made("paper_variants.json"),
            )
        )
    table.append(
        line(
            "one shape, relative error of eigenvalues",
            "nine shapes, vertices",
            cell([single_shape(name) for name in NINE], ["discrepancy"]),
            cell([row for row in overfit if row["shape"] in NINE], ["discrepancy"], method=THEIRS),
            cell(rows("probes_eigenvalues.json"), ["tuned, even mass"], reading="as written"),
            cell([row for row in surfaces if row["shape"] in NINE], ["discrepancy"], method="direct"),
            REASONS["eigenvalues"],
            f"{made('probes_eigenvalues.json')}; the paper's way by the command above",
        )
    )
    path = results / "paper_generalisation.json"
    steps = json.loads(path.read_text())["facts"].get("steps", 0) if path.is_file() else 0
    files = {"MPZ14": "mpz14", "SHREC'07": "shrec07", "DefTransfer": "deftransfer"}
    for name, file in ((name, f"generalisation_{end}.json") for name, end in files.items()):
        both = [row for row in rows(path.name) if row["start"] != CONTROL] + rows("paper_unseen_controls.json")
        theirs = [row for row in both if collection(row["shape"]) == name]
        ours = [row for row in rows(file) if row["domain"] == "surface"]
        if name in GENERALISATION or theirs or ours:
            found = {"command": made(path.name)}
            table += [each | found for each in unseen_lines([*theirs, *ours], name, steps)]
    table.append(
        line(
            "unseen shapes, |cosine| k<=10 / k<=20 / k<=50",
            "six other collections",
            "below",
            *["not measured"] * 3,
            "files are not here",
            "none",
        )
    )
    for path in sorted(results.glob("images_*.json")):
        name = path.stem.removeprefix("images_")
        found = [row for row in rows(path.name) if row["method"] not in FITTED] + rows(f"paper_{path.name}")
        each = image_lines([row for row in found if row["k"] == 10], name, ImagesRecipe(), published=False)
        steps = [row["steps"] for row in rows(f"paper_{path.name}") if row.get("steps")]
        for one in each:
            why = one["reason for the gap"] + (f", {max(steps)} of 10 000 steps" if steps else "")
            table.append(one | {"reason for the gap": why, "command": made(f"paper_{path.name}")})
    table.append(
        line(
            "clusters in 2, 5 and 10 coordinates",
            "STL10, Imagenette, CIFAR100, Caltech256",
            "below",
            *["not measured"] * 3,
            "DINOv2 and CLIP features of these images are not here",
            "`eigenprobe reproduce images test.npz --train train.npz --dataset stl10 --extractor clip`",
        )
    )
    return markdown(table)


def _short(rows: Iterable[Document], missing: int) -> str:
    """Why points on faces are not at their end: steps, shapes without a run, and what vectors in any order reach."""
    rows = [row for row in rows if row.get("steps")]
    steps = [int(row["steps"]) for row in rows] or [0]
    matched = cell(rows, [key.replace("cosine", "matched") for key in COSINES])
    more = f"{missing} of the nine not measured" if missing else f"in any order {matched}"
    return f"{min(steps)} to {max(steps)} of 12 000 steps; {more}"


def _sooner(rows: Iterable[Document], shapes: Iterable[str]) -> str:
    """The same comparison in a run of fewer steps."""
    chosen = [row for row in rows if row["shape"] in shapes]
    if not chosen:
        return ""
    one, paper = (cell(chosen, COSINES, variant=variant) for variant in ("sigma", "paper"))
    steps = max(int(row["steps"]) for row in chosen if row["variant"] == "sigma")
    return f"; after {steps} steps {one} with one sigma, {paper} with the range"


def published_generalisation(_: Path) -> str:
    """The paper's table of collections."""
    counts = {row["collection"]: row["shapes"] for row in published_table("generalisation")}
    return markdown(
        [
            {"collection": name, "shapes": counts[name]}
            | {f"k≤{i}": value for i, value in zip(range(5, 55, 5), values, strict=True)}
            for name, values in COLLECTIONS.items()
        ]
    )


def published_shapes(results: Path) -> str:
    """The paper's two tables of single shapes, each number beside ours or beside the reason why there is none."""

    def read(name: str) -> dict[tuple[str, str], Document]:
        rows = json.loads((results / name).read_text())["rows"] if (results / name).is_file() else []
        return {(row["shape"], row["method"]): row for row in rows}

    trained, controls = read("paper_overfit.json"), read("paper_controls.json")
    known = sorted(DIFFERENT, key=lambda file: (file + FACES, THEIRS) in trained)  # of two files the one with a network
    files = {DIFFERENT[file][0]: (file, DIFFERENT[file][1]) for file in known}
    table = []
    for row in published_table("single_shapes"):
        name = row["shape"]
        file, how = files.get(name, (name, "" if name in NINE else "no public file of this shape is here"))
        found = {"vertices": trained.get((file, THEIRS)), "faces": trained.get((file + FACES, THEIRS))}
        cells = {where: cell([each] if each else [], COSINES, "not trained") for where, each in found.items()}
        control = [controls[key] for key in [(file + FACES, CONTROL)] if key in controls]
        printed = bool(row["cosine_10"])
        table.append(
            {
                "shape": name,
                "published": " / ".join(row[key] for key in COSINES) if printed else "none",
                "λ published": f"{row['discrepancy']} ± {row['deviation']}" if printed else "none",
                **{f"here, {where}": text for where, text in cells.items()},
                "control, faces": cell(control, COSINES),
                "λ here, vertices": cell([each for each in [found["vertices"]] if each], ["discrepancy"], "-"),
                "file": how or "a close match",
            }
        )
    return markdown(table)


def published_images(_: Path) -> str:
    """The paper's eight tables of scores: mean and deviation."""
    parts = []
    for (dataset, extractor), rows in grouped(published_table("image_scores"), "dataset", "extractor").items():
        table = [
            {"method": row["method"], "k": row["k"]}
            | {title: f"{row[key]} ± {row[f'{key}_std']}" for key, title in METRICS.items()}
            for row in rows
        ]
        parts.append(f"{dataset}, {extractor}:\n\n{markdown(table)}")
    return "\n\n".join(parts)


def published_settings(_: Path) -> str:
    """The paper's two tables of hyper-parameters."""
    shapes = [
        {k: row[k] for k in ("shape", "neighbours", "steps", "sigma")} for row in published_table("single_shapes")
    ]
    return f"{markdown(shapes)}\n\n{markdown(published_table('image_settings'))}"


# By name: the files whose numbers are taken, and the table of them.
SUMMARIES: dict[str, tuple[tuple[str, ...], Callable[[Path], str]]] = {
    "headlines": (
        ("surfaces.json", "generalisation_mpz14.json", "images_*.json", "maps.json", "direct_*.json"),
        headlines,
    ),
    "experiments": (
        ("toy1d.json", "paper_*.json", "probes_eigenvalues.json", "surfaces.json", "generalisation_*.json"),
        experiments,
    ),
    "published_shapes": (("paper_overfit.json", "paper_controls.json"), published_shapes),
    "published_generalisation": ((), published_generalisation),
    "published_images": ((), published_images),
    "published_settings": ((), published_settings),
}
