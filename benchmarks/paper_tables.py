"""The tables of the paper's experiments: the verdicts of docs/paper.md, the details of
docs/results.md.

A table takes the folder of results and is made of several files; a file that is absent leaves
"not measured".
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.shown import COSINES, Shown, joined
from eigenprobe_lab.evaluation.reports import grouped, markdown, mean_row
from eigenprobe_lab.evaluation.unseen import LEVELS
from eigenprobe_lab.paper.published import (
    COLLECTIONS,
    DIFFERENT,
    FACES,
    NINE,
    collection,
    single_shape,
)
from eigenprobe_lab.paper.published import table as published_table
from eigenprobe_lab.paper.released import METHOD as RELEASED
from eigenprobe_lab.paper.reproduction import CLOSED, THEIRS, cell
from eigenprobe_lab.paper.toy1d import FUNCTIONS, LOSSES

Row = dict[str, Any]
ON_FACES = tuple(name + FACES for name in NINE)
VARIANTS = {
    "paper": "the paper's way",
    "seed1": "the same, seed 1",
    "seed2": "the same, seed 2",
    "sigma": "sigma .034 alone",
    "task": "probes learned: polynomials",
    "descent": "probes learned: descent",
    "ascent": "probes learned: ascent",
    "inside": "the paper's way, inside the solid",
}
THREE = [f"k<={k}" for k in (10, 20, 50)]


class Files:
    """Rows of files by name; none where there is no file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def content(self, name: str) -> Row:
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.is_file() else {"rows": []}

    def rows(self, name: str, shapes: Iterable[str] | None = None, **match: Any) -> list[Row]:
        wanted = None if shapes is None else set(shapes)
        return [
            row
            for row in self.content(name)["rows"]
            if match.items() <= row.items() and (wanted is None or row["shape"] in wanted)
        ]


def verdicts(results: Path) -> str:
    """What the paper claims, whether it was confirmed here, and the numbers."""
    files = Files(results)
    toy, shapes = files.rows("toy1d"), files.rows("paper_overfit")
    nine, faces = ([row for row in shapes if row["shape"] in names] for names in (NINE, ON_FACES))
    printed = [single_shape(name) for name in NINE]
    losses = {row["loss"]: row for row in files.rows("probes_losses")}
    variants = files.rows("paper_variants")
    one = [row for row in variants if row["variant"] == "sigma"]
    same = [
        row
        for row in variants
        if row["variant"] == "paper" and row["shape"] in [each["shape"] for each in one]
    ]
    direct = files.rows("surfaces", NINE, method="direct")
    oracle = files.rows("paper_eigenvalues", factor="oracle's sum")
    left = [row for row in shapes if row["method"] == THEIRS and "coordinates_10" in row]
    better = " / ".join(
        str(sum(row[f"coordinates_{k}"] < row[f"oracle_coordinates_{k}"] for row in left))
        for k in (10, 20, 50)
    )
    unseen = [
        row
        for row in files.rows("paper_generalisation", start=THEIRS)
        if collection(row["shape"]) == "MPZ14"
    ]
    solids = files.rows("generalisation_mpz14", stage="feed-forward", domain="volume")
    about = files.content("paper_generalisation").get("facts", {})
    seen = "real meshes" if about.get("options", {}).get("training") else "procedural shapes"
    mass = {row["mass"]: row for row in files.rows("probes_mass")}
    free = {row["features"]: row for row in files.rows("paper_image_loss")}
    mpz14 = dict(zip((f"k<={k}" for k in LEVELS), COLLECTIONS["MPZ14"], strict=True))
    released = files.rows("paper_released", ON_FACES, method=RELEASED)

    def largest(name: str) -> str:
        return f"{losses[name]['largest mass over mean']:.1f}" if name in losses else "-"

    def image(name: str, key: str) -> str:
        return f"{free[name][key]:.3f}" if name in free else "-"

    start, end = "closed form, q_1 even", "free, least hybrid loss"
    rows = [
        (
            "Confirmed",
            "an interval gives the cosines",
            "a figure",
            f"|cosine| {cell(toy, FUNCTIONS[1:], loss=LOSSES['paper'])}",
        ),
        (
            "",
            "one network per shape finds the eigenvectors, |cosine| k ≤ 10 / 20 / 50",
            cell(printed, COSINES),
            f"{cell(faces, COSINES, method=THEIRS)} on even points, mean of nine; "
            f"{cell(nine, COSINES, method=THEIRS)} on vertices; released way "
            f"{cell(released, COSINES, 'not measured: it needs a GPU')}",
        ),
        (
            "",
            "with the M-norm the mass collapses",
            "stated",
            f"largest mass over mean {largest('M-norm')}, hybrid {largest(HYBRID)}",
        ),
        (
            "",
            "the same training works inside a solid",
            "figures",
            cell(variants, COSINES, variant="inside") + " (kitten)",
        ),
        (
            "",
            "the optimal basis is that of the Laplacian",
            "theorem",
            f"as a closed form, `direct`: {cell(direct, COSINES)}",
        ),
        (
            "Not confirmed",
            "eigenvalues are one over the largest error",
            cell(printed, ["discrepancy"]),
            f"relative error {cell(nine, ['discrepancy'], method=THEIRS)}; untrained "
            f"{cell(nine, ['discrepancy'], method='random weights')}; polynomials "
            f"{cell(nine, ['discrepancy'], method='polynomials')}; the oracle's vectors "
            f"{cell(oracle, ['published triple'], **{'one over': 'largest of squared errors'})}",
        ),
        (
            "",
            "the learned mass follows the area",
            "stated",
            f"correlation {cell(nine, ['mass_correlation'], method=THEIRS)}",
        ),
        (
            "",
            "a range of sigma helps",
            "stated",
            f"{cell(one, COSINES)} with one sigma, {cell(same, COSINES)} with the range",
        ),
        (
            "",
            "coordinates are rebuilt better than by the oracle",
            "stated",
            f"on {better} of {len(left)} trained shapes",
        ),
        (
            "Not tested",
            "one network for all shapes, |cosine| k ≤ 10 / 20 / 50",
            cell([mpz14], THREE) + " (105 shapes)",
            f"{cell(unseen, THREE)} ({len(unseen)} shapes) after {about.get('steps', 'no')} "
            f"steps on {seen}",
        ),
        (
            "",
            "a network of surfaces works inside solids",
            "figures",
            f"ours: {cell(solids, THREE, start='network')}, its inputs alone "
            f"{cell(solids, THREE, start='its inputs alone')}",
        ),
        ("", "eight tables of images", "32 runs each", "no DINOv2 or CLIP features here"),
        (
            "Added",
            "eigenvalues by Rayleigh quotients of the network's vectors",
            "-",
            f"relative error {cell(nine, ['discrepancy_rayleigh'], method=THEIRS)}; `direct` "
            f"{cell(direct, ['discrepancy'])}",
        ),
        (
            "",
            "a mass that is known",
            "-",
            "correlation with area "
            + cell([mass.get("ours: adaptive smoother", {})], ["correlation with area"]),
        ),
        (
            "",
            "why networks of images fail: the hybrid loss",
            "-",
            f"loss {image(start, 'loss')} → {image(end, 'loss')}, NMI of V "
            f"{image(start, 'NMI of V')} → {image(end, 'NMI of V')}, of Q "
            f"{image(start, 'NMI of Q')} → {image(end, 'NMI of Q')}",
        ),
        ("", "controls: untrained, polynomials, closed forms; learned probes", "-", "beside all"),
    ]
    titles = ("verdict", "the paper's claim", "published", "here")
    return markdown(
        [
            dict(zip(titles, (f"**{verdict}**" if verdict else "", *cells), strict=True))
            for verdict, *cells in rows
        ]
    )


HYBRID = "hybrid (the paper's)"


def shapes(results: Path) -> str:
    """Every single shape of the paper: what it prints, networks trained here, closed forms."""
    files = Files(results)
    trained, controls, released = (
        {(row["shape"], row["method"]): row for row in files.rows(name)}
        for name in ("paper_overfit", "paper_controls", "paper_released")
    )
    known = sorted(DIFFERENT, key=lambda file: (file + FACES, THEIRS) in trained)
    files_of = {DIFFERENT[file][0]: (file, DIFFERENT[file][1]) for file in known}

    def cells(file: str) -> Row:
        faces = trained.get((file + FACES, THEIRS), {})
        asked = released.get((file + FACES, RELEASED), {})
        return {
            "vertices": joined(trained.get((file, THEIRS), {})),
            "faces": joined(faces),
            "faces, any order": joined(faces, "matched"),
            **({"faces, released way": joined(asked)} if released else {}),
            "closed form, faces": joined(controls.get((file + FACES, CLOSED), {})),
            "the same, one sigma": joined(controls.get((file + FACES, "sigma 0.034 alone"), {})),
        }

    table = []
    for row in published_table("single_shapes"):
        name = row["shape"]
        file, how = files_of.get(name, (name, "a close match" if name in NINE else "no file here"))
        printed = joined(single_shape(name)) or "none"
        table.append({"shape": name, "published": printed} | cells(file) | {"file": how})
    means = {
        "shape": "**mean of the nine**",
        "published": joined(mean_row([*map(single_shape, NINE)])),
    }
    for title in cells("horse"):
        found = [row[title] for row in table if row["shape"] in NINE and row[title]]
        numbers = zip(*([float(each) for each in cell.split(" / ")] for cell in found), strict=True)
        whole = len(found) == len(NINE)
        means[title] = (
            " / ".join(f"{statistics.mean(each):.3f}" for each in numbers) if whole else None
        )
    return markdown([*table, means])


def spectra(results: Path) -> str:
    """Errors of eigenvalues by largest errors and by Rayleigh quotients, with and without
    learning."""
    files, table = Files(results), []
    for where, names in (("vertices", NINE), ("faces", ON_FACES)):
        for method in (THEIRS, "random weights", "polynomials"):
            found = files.rows("paper_overfit", names, method=method)
            if found:
                table.append(
                    {
                        "vectors": f"{method}, {where}",
                        "cosine, k≤10": mean_row(found)["cosine_10"],
                        "largest errors, tuned triple": mean_row(found)["discrepancy"],
                        "largest errors, fixed triple": mean_row(found)["discrepancy_fixed"],
                        "Rayleigh quotients": mean_row(found)["discrepancy_rayleigh"],
                    }
                )
    named = {"one over": "largest of squared errors", "factor": "oracle's sum"}
    for row in files.rows("paper_eigenvalues", **named):
        table.append(
            {
                "vectors": "the oracle's, faces",
                "cosine, k≤10": 1.0,
                "largest errors, tuned triple": row["published triple"],
                "largest errors, fixed triple": row["fixed triple"],
                "Rayleigh quotients": None,
            }
        )
    published = mean_row([single_shape(name) for name in NINE])
    table.append(
        {
            "vectors": "published",
            "cosine, k≤10": published["cosine_10"],
            "largest errors, tuned triple": published["discrepancy"],
        }
    )
    return markdown(table)


def unseen(results: Path) -> str:
    """Means over the unseen shapes of each collection: published, trained here, controls, ours."""
    files, table = Files(results), []
    ours = {"MPZ14": "mpz14", "SHREC'07": "shrec07", "DefTransfer": "deftransfer"}
    counts = {row["collection"]: row["shapes"] for row in published_table("generalisation")}
    both = [
        *(row for row in files.rows("paper_generalisation") if row["start"] != CLOSED),
        *files.rows("paper_unseen_controls"),
    ]
    for name, file in ours.items():
        printed = dict(zip((f"k<={k}" for k in LEVELS), COLLECTIONS[name], strict=True))
        table.append({"collection": name, "shapes": counts[name], "start": "published"} | printed)
        found = [row for row in both if collection(row["shape"]) == name]
        found += [
            row | {"start": "ours, feed-forward"}
            for row in files.rows(f"generalisation_{file}", start="network", stage="feed-forward")
            if row["domain"] == "surface"
        ]
        for (start,), rows in grouped(found, "start").items():
            levels = mean_row(rows, [f"k<={k}" for k in LEVELS])
            table.append({"collection": name, "shapes": str(len(rows)), "start": start} | levels)
    columns = ["collection", "shapes", "start", *(f"k<={k}" for k in (5, 10, 20, 30, 40, 50))]
    return markdown([{key: row.get(key) for key in columns} for row in table])


def variants(document: Row) -> str:
    """One network per shape, trained with one thing changed; and the spread over seeds."""
    order = {name: place for place, name in enumerate(VARIANTS)}
    rows = sorted(document["rows"], key=lambda row: (row["shape"], order[row["variant"]]))
    table = []
    for row in rows:
        learned = row.get("learned") or {}
        table.append(
            {
                "shape": row["shape"],
                "training": VARIANTS[row["variant"]],
                "steps": f"{row['steps']:.0f}",
                "k≤10 / 20 / 50": joined(row),
                "any order": joined(row, "matched"),
                "coordinates not rebuilt": joined(row, "coordinates"),
                "the same, oracle": joined(row, "oracle_coordinates"),
                "mean sigma": learned.get("mean sigma", "fixed"),
                "mean steps": learned.get("mean steps", "fixed"),
            }
        )
    parts = [markdown(table)]
    seeds = [row for row in rows if row["variant"] in ("paper", "seed1", "seed2")]
    for (shape,), group in grouped(seeds, "shape").items():
        if len(group) > 1:
            found = [[row[key] for row in group] for key in COSINES]
            spreads = " / ".join(
                f"{statistics.mean(each):.3f} ± {statistics.stdev(each):.3f}" for each in found
            )
            parts.append(f"{shape}, {len(group)} seeds: {spreads} (mean ± deviation).")
    return "\n\n".join(parts)


def readings(document: Row) -> str:
    """Eigenvalues by errors with the oracle's own vectors: means over the shapes."""
    columns = ["one over", "factor", "fixed triple", "published triple", "best triple", "published"]
    return markdown([{key: row.get(key) for key in columns} for row in document["rows"]])


def image_loss(document: Row) -> str:
    """The hybrid loss minimised, and what becomes of clusters."""
    about = "; ".join(f"{name} {value:.3g}" for name, value in document["facts"].items())
    columns = list(dict.fromkeys(key for row in document["rows"] for key in row))
    return f"Covariance: {about}.\n\n" + markdown(
        [{key: row.get(key) for key in columns} for row in document["rows"]]
    )


# By name: the files whose numbers are taken, and the table of them.
Summary = tuple[tuple[str, ...], Callable[[Path], str]]
PAPER: dict[str, Summary] = {
    "verdicts": (
        (
            "toy1d.json",
            "paper_overfit.json",
            "paper_released.json",
            "paper_variants.json",
            "paper_eigenvalues.json",
            "paper_generalisation.json",
            "paper_image_loss.json",
            "probes_losses.json",
            "probes_mass.json",
            "surfaces.json",
            "generalisation_mpz14.json",
        ),
        verdicts,
    ),
    "shapes": (("paper_overfit.json", "paper_controls.json", "paper_released.json"), shapes),
    "spectra": (("paper_overfit.json", "paper_eigenvalues.json"), spectra),
    "unseen": (
        ("paper_generalisation.json", "paper_unseen_controls.json", "generalisation_*.json"),
        unseen,
    ),
}
DETAILS = {
    "paper_variants": Shown("paper_variants.json", variants),
    "paper_eigenvalues": Shown("paper_eigenvalues.json", readings),
    "paper_image_loss": Shown("paper_image_loss.json", image_loss),
}
