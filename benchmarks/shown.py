"""Files of results as Markdown: one function per kind of file, and the table of which shows which.

A function takes the content of a file; numbers of the first edition, which had other fields, are
shown as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from benchmarks.catalogue import RESULTS as CATALOGUE
from benchmarks.record import spread
from eigenprobe_lab.evaluation.neighbours import NeighbourReport
from eigenprobe_lab.evaluation.reports import grouped, markdown, mean_row
from eigenprobe_lab.evaluation.scans import KINDS, ScanReport
from eigenprobe_lab.evaluation.surfaces import Evaluation
from eigenprobe_lab.evaluation.unseen import Generalisation
from eigenprobe_lab.paper.images import FITTED, METHODS, Images
from eigenprobe_lab.paper.published import PAPER, published_collections, single_shape

LEVELS = (10, 20, 50)
PROBES = ("probes_losses", "probes_mass")
STARTS = ("closed form", "network, seeds, guards", "network", "its inputs alone", "polynomials")
STAGES = ("", "feed-forward", "Ritz")
COSINES = {f"cosine_{k}": f"k≤{k}" for k in LEVELS}

Document = dict[str, Any]


def embedding(document: Document) -> str:
    """All parts, all columns; one that another run has measured says which."""
    parts = []
    for name, rows in document.get("parts", {"": document.get("rows")}).items():
        made = document.get("made", {}).get(name, document)
        own = made["command"] != document["command"]
        parts += [f"`{made['command']}` ({made['date']}, {made['commit']}):"] if own else []
        parts.append(markdown(rows))
    return "\n\n".join(parts)


def evaluation(document: Document) -> Evaluation:
    return Evaluation(
        document["rows"], document["facts"].get("failed", {}), document["facts"], published=PAPER
    )


def neighbours(document: Document) -> str:
    """Plain, learned and oracle's cuts beside robust_laplacian, at every size and level of
    noise.
    """
    return NeighbourReport(document["rows"], document["facts"].get("failed", {})).markdown()


def scans(document: Document) -> str:
    """Every kind of damage that is measured today, with means over the shapes."""
    rows = [row for row in document["rows"] if row["cloud"].partition(":")[0] in KINDS]
    return ScanReport(rows, {}, document["facts"]).markdown()


def surfaces(document: Document) -> str:
    """The paper's table by shape, the means and the remarks; the details stay in the command's own
    files.
    """
    report = evaluation(document)
    return "\n\n".join([report.headline(), report.summary(), *report.remarks()])


def generalisation(document: Document) -> str:
    """Means over the shapes of the starts and stages that are measured today, the paper's rows of
    the same collections first."""
    rows = [row for row in document["rows"] if row["start"] in STARTS and row["stage"] in STAGES]
    published = published_collections(row["shape"] for row in rows)
    return Generalisation(rows, {}, document["facts"], published=published).markdown().strip()


def overfit(document: Document) -> str:
    """Means over the shapes of the network, the closed form and the paper."""
    good = [row for row in document["shapes"] if "error" not in row]
    shapes = list(dict.fromkeys(row["shape"] for row in good))
    printed = [single_shape(shape) | {"method": "paper"} for shape in shapes]
    table = [
        mean_row(group, result=kind, shapes=len(group))
        for (kind,), group in grouped(
            [*good, *(row for row in printed if len(row) > 1)], "method"
        ).items()
        if kind != "all vertices"
    ]
    columns = {"result": "mean of", "shapes": "shapes", **COSINES, "discrepancy": "λ disc."}
    return markdown(table, columns)


def joined(row: Document, prefix: str = "cosine") -> str | None:
    """``k <= 10 / 20 / 50`` in one cell."""
    values = [row.get(f"{prefix}_{k}") for k in LEVELS]
    return None if None in values else " / ".join(f"{value:.3f}" for value in values)


def paper_images(document: Document) -> str:
    """The triple that was tuned on development rows, and scores on the others in ten
    coordinates."""
    about, rows = document["facts"], [row for row in document["rows"] if row["k"] == 10]
    tuned = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in about["tuned"].items())
    steps = next((row["steps"] for row in rows if row["method"] == "paper"), 0)
    said = f"{about['table']}, tuned: {tuned}; {steps} steps, {about['runs']} subsets."
    return f"{said}\n\n{Images(rows).markdown()}"


def learned(document: Document) -> str:
    """Row probes by how their bandwidth was found, as it is today."""
    rows = [row for row in document["rows"] if "held-out error, fixed" not in row]
    return markdown(rows)


def images(document: Document) -> str:
    """Scores of every method at every k, the best in bold; a method without a row is named. Rows of
    the paper's own network are in files of their own."""
    rows = [row for row in document["rows"] if row["method"] not in FITTED]
    found = {row["method"] for row in rows}
    absent = ", ".join(title for name, title in METHODS.items() if name not in (*found, *FITTED))
    closing = (
        f"\n\nNo rows: {absent}, hours without a GPU and not measured on one yet." if absent else ""
    )
    return f"{document['facts'].get('table', '')}:\n\n{Images(rows).markdown()}{closing}"


def robustness(document: Document) -> str:
    """|cosine| k <= 10 with the mesh oracle by case."""
    return markdown([{"case": name, **by} for name, by in document["cosine10"].items()])


def direct(document: Document) -> str:
    """Seconds (median and range) and memory of each method by size; the loss beside its textbook
    form.
    """
    table, closing = [], []
    for entry in document["tables"]:
        for name, row in entry["rows"].items():
            cells = {"n": entry["n"], "d": entry["d"], "method": name}
            table.append(
                cells | {"seconds": spread(row) if "seconds" in row else None, "MiB": _memory(row)}
            )
        if "median" in entry.get("ratio", {}):
            found = spread(entry["ratio"], key="median")
            closing.append(f"{entry['ratio']['of']} at {entry['n']} points: {found}.")
    parts = [markdown(table, digits=0), *closing]
    if document.get("loss"):
        losses = [
            {"loss": name, "pass": part, "ms": 1000 * row["seconds"], "MiB": _memory(row)}
            for name, passes in document["loss"].items()
            for part, row in passes.items()
            if "seconds" in row
        ]
        parts.append(markdown(losses, digits=1))
    return "\n\n".join(parts)


def _memory(row: Document) -> float | None:
    """MiB, unless it was less than can be told."""
    return row["MiB"] if row.get("MiB", 0) >= 1 else None


def multigrid(document: Document) -> str:
    """Seconds of each way to the same residual, and the ratio."""
    table = [
        {
            "n": entry["n"],
            "solver": name,
            "seconds": spread(row),
            "residual": f"{row['residual']:.1e}",
        }
        for entry in document["tables"]
        for name, row in entry["rows"].items()
    ]
    shown = [(entry["ratio"], entry["n"]) for entry in document["tables"]]
    each = [
        f"{r:.2f} at {n} points" if isinstance(r, float) else f"{spread(r, key='median')} at {n}"
        for r, n in shown
    ]
    pyamg = document.get("pyamg") or document["versions"]["pyamg"]
    closing = (
        f"Ours takes {', '.join(each)} of the time of the faster of the others (pyamg {pyamg})."
    )
    return f"{markdown(table, digits=2)}\n\n{closing}"


def operators(document: Document) -> str:
    """Mean and median over the shapes of what each operator gets wrong, by solve, and the ratio of
    the means.
    """
    table = [
        {"over the shapes": over, "operator": name, **by}
        for over in ("mean", "median")
        for name, by in document[over].items()
    ]
    ratios = {what: by / table[1][what] for what, by in document["mean"]["eigenprobe"].items()}
    table.insert(2, {"over the shapes": "mean", "operator": "ratio", **ratios})
    return f"{len(document['shapes'])} shapes, {document['n']} points:\n\n{markdown(table)}"


def retrieval(document: Document) -> str:
    """Scores by whose eigenvalues they are."""
    told = f"{document['shapes']} shapes, {document['n']} points, {document['count']} eigenvalues"
    return f"{told}:\n\n{markdown(document['rows'])}"


def scale(document: Document) -> str:
    """Seconds and memory by size: the range where calls took turns, one number where one call was
    timed.
    """
    parts = []
    for block in document["tables"]:
        points = f"points in R^{block['d']}"
        rows = [
            {points: f"{int(n):,}", "method": name, "seconds": row.get("failed") or spread(row, 3)}
            | {"calls": row.get("runs", 1), "MiB": None if "failed" in row else round(row["MiB"])}
            for name, found in block["rows"].items()
            for n, row in found.items()
        ]
        parts.append(markdown(rows))
    return "\n\n".join(parts)


def noisy(document: Document) -> str:
    """Seconds (median and range), memory and errors of very many noisy points, by shape and where
    they come from.
    """
    names = {"shape": "shape", "points": "points", "from": "given as", "sampled": "worked on"}
    table = [
        {name: row[key] for key, name in names.items()}
        | {"seconds": spread(row), "first call": round(row["cold"], 2), "MiB": round(row["MiB"])}
        | {"error of eigenvalues": round(row["error of eigenvalues"], 4)}
        for row in document["rows"]
    ]
    return markdown(table)


def mutants(document: Document) -> str:
    """Changes that made a test fail, by folder."""
    table = []
    for folder, row in document["rooms"].items():
        tried, killed, same = row["tried"], row["killed"], len(row["equivalent"])
        share, others = f"{killed / tried:.0%}", f"{killed / max(1, tried - same):.0%}"
        counts = {"folder": folder, "changes": tried, "noticed": killed, "without effect": same}
        shares = {"share noticed": share, "share of those with an effect": others}
        own = (
            {"by tests of the folder": f"{row['own'] / max(1, tried - same):.0%}"}
            if "own" in row
            else {}
        )
        table.append(counts | shares | own)
    return markdown(table)


def calibration(document: Document) -> str:
    """How often true errors are below multiples of the estimate; silent errors and false alarms."""
    table = []
    for kind, row in document["curve"].items():
        within = {f"within {t}": f"{row[t]:.3f}" for t in ("0.5", "1.0", "2.0", "4.0")}
        silent, false = (
            f"{row['silent']} of {row['wrong']}",
            f"{row['false alarms']} of {row['right']}",
        )
        table.append(
            {
                "clouds": kind,
                "number": row["clouds"],
                **within,
                "silent": silent,
                "false alarms": false,
            }
        )
    return markdown(table)


def _milliseconds(row: Document) -> str:
    return spread(
        {"seconds": row["median_ms"], **({"range": row["range_ms"]} if "range_ms" in row else {})}
    )


def training(document: Document) -> str:
    """One step of training, by loss and by way of running."""
    table = [
        {
            "what": row.get("loss") or row.get("step"),
            "ms": _milliseconds(row),
            "GiB": row.get("peak_gib"),
        }
        for row in [*document.get("loss", []), *document.get("step", [])]
        if "error" not in row
    ]
    return markdown(table, digits=2)


@dataclass(frozen=True)
class Shown:
    """Files by pattern, and how to show one."""

    pattern: str
    show: Callable[[Document], str]

    @property
    def commands(self) -> str:
        """What makes these files."""
        found = [
            result.command for name, result in CATALOGUE.items() if fnmatch(name, self.pattern)
        ]
        return " and ".join(f"`{command}`" for command in found)


TABLES = {
    "surfaces": Shown("surfaces.json", surfaces),
    "neighbours": Shown("neighbours.json", neighbours),
    "scans": Shown("scans.json", scans),
    "generalisation": Shown("generalisation_*.json", generalisation),
    "overfit": Shown("training_shapes_*.json", overfit),
    "paper_images": Shown("paper_images_*.json", paper_images),
    **{name: Shown(f"{name}.json", embedding) for name in PROBES},
    "probes_learned": Shown("probes_learned.json", learned),
    "toy1d": Shown("toy1d.json", embedding),
    "images": Shown("images_*.json", images),
    "embedding": Shown("embedding_*.json", embedding),
    "direct": Shown("direct_*.json", direct),
    "multigrid": Shown("multigrid.json", multigrid),
    "training": Shown("training_c*.json", training),
    "robustness": Shown("robustness.json", robustness),
    "operators": Shown("operators.json", operators),
    "retrieval": Shown("retrieval.json", retrieval),
    "maps": Shown("maps.json", embedding),
    "sweep": Shown("sweep_*.json", embedding),
    "scale": Shown("scale_*.json", scale),
    "noisy": Shown("noisy_*.json", noisy),
    "mutants": Shown("mutants.json", mutants),
    "calibration": Shown("calibration.json", calibration),
}
