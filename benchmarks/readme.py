"""Fill the tables of the README, docs/results.md and docs/constants.md from ``benchmarks/results/*.json``.

    <!-- results: NAME -->  ...  <!-- end -->      everything between the marks is replaced by NAME's files as Markdown

No number there is typed by hand. Where no file is there yet, the text says so and gives the command that makes it.
``python -m benchmarks.readme`` (or ``make readme``) rewrites the pages; a test fails while one is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenprobe.evaluation.surface_report import Evaluation
from eigenprobe.evaluation.tables import grouped, markdown, mean_row
from eigenprobe.paper.generalisation import Generalisation
from eigenprobe.paper.images import Images
from eigenprobe.paper.published import PAPER, single_shape

RESULTS = Path(__file__).resolve().parent / "results"
ROOT = RESULTS.parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "constants.md")
MARK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
LEVELS = (10, 20, 50)
COSINES = {f"cosine_{k}": f"k≤{k}" for k in LEVELS}

Document = dict[str, Any]


def rows(document: Document) -> str:
    """All rows, all columns."""
    return markdown(document["rows"])


def evaluation(document: Document) -> Evaluation:
    return Evaluation(document["rows"], document["facts"].get("failed", {}), document["facts"], published=PAPER)


def surfaces(document: Document) -> str:
    """The paper's table by shape, the means and the remarks; the details stay in the command's own files."""
    report = evaluation(document)
    return "\n\n".join([report.headline(), report.summary(), *report.remarks()])


def generalisation(document: Document) -> str:
    """Means over the shapes: starts and stages, the paper's rows first."""
    return Generalisation(document["rows"], {}, document["facts"]).markdown().strip()


def overfit(document: Document) -> str:
    """Means over the shapes of the network, the closed form and the paper, and the time to get within 1 %."""
    good = [row for row in document["shapes"] if "error" not in row]
    shapes = list(dict.fromkeys(row["shape"] for row in good))
    printed = [single_shape(shape) | {"method": "paper"} for shape in shapes]
    table = [
        mean_row(group, result=kind, shapes=len(group))
        for (kind,), group in grouped([*good, *(row for row in printed if len(row) > 1)], "method").items()
        if kind != "all vertices"
    ]
    reached = [row.get("seconds_to_1_percent") for row in good if row["method"] == "ritz"]
    known = [seconds for seconds in reached if seconds is not None]
    closing = f"Within 1 % of the closed form's loss on held-out resamplings: {len(known)} of {len(shapes)} shapes"
    closing += f", after {max(known):.1f} s of training at most." if known else "."
    columns = {"result": "mean of", "shapes": "shapes", **COSINES, "discrepancy": "λ disc."}
    return markdown(table, columns) + "\n\n" + closing


def images(document: Document) -> str:
    """Scores of every method at every k, the best in bold."""
    return f"{document['facts'].get('table', '')}:\n\n{Images(document['rows']).markdown()}".removeprefix(":\n\n")


def scale(document: Document) -> str:
    """Means over the shapes by smoother and bandwidth."""
    kinds = [key for key in document["shapes"][0] if "," in key]
    titles = [*COSINES.values(), "λ disc."]
    table = []
    for kind in kinds:
        means = map(statistics.mean, zip(*(row[kind] for row in document["shapes"]), strict=True))
        smoother, bandwidth = kind.split(", ")
        table.append({"smoother": smoother, "bandwidth": bandwidth, **dict(zip(titles, means, strict=True))})
    learned = [row["learned"] for row in document["shapes"]]
    closing = f"The learned bandwidth is {min(learned):.2f} to {max(learned):.2f} of the default"
    return f"{markdown(table)}\n\n{closing} ({len(learned)} shapes)."


def robustness(document: Document) -> str:
    """|cosine| k <= 10 with the mesh oracle by case."""
    return markdown([{"case": name, **by} for name, by in document["cosine10"].items()])


def direct(document: Document) -> str:
    """Seconds and memory of each method by size; the loss beside its textbook form."""
    table = [
        {"n": entry["n"], "d": entry["d"], "method": name, "seconds": row.get("seconds"), "MiB": row.get("MiB")}
        for entry in document["tables"]
        for name, row in entry["rows"].items()
    ]
    parts = [markdown(table, digits=2)]
    if document.get("loss"):
        losses = [
            {"loss": name, "pass": part, "ms": 1000 * row["seconds"], "MiB": row["MiB"]}
            for name, passes in document["loss"].items()
            for part, row in passes.items()
            if "seconds" in row
        ]
        parts.append(markdown(losses, digits=1))
    return "\n\n".join(parts)


def multigrid(document: Document) -> str:
    """Seconds of each way to the same residual, and the ratio."""
    table = [
        {"n": entry["n"], "way": name, "seconds": row["seconds"], "residual": f"{row['residual']:.1e}"}
        for entry in document["tables"]
        for name, row in entry["rows"].items()
    ]
    ratios = ", ".join(f"{entry['ratio']:.2f} at {entry['n']} points" for entry in document["tables"])
    closing = f"Ours takes {ratios} of the time of the faster of the others (pyamg {document['pyamg']})."
    return f"{markdown(table, digits=2)}\n\n{closing}"


def constants(document: Document) -> str:
    """A table per class: less, as it is, more."""

    def cell(row: Document, key: str) -> str:
        three = [row[each][key] for each in ("less", "default", "more")]
        shown = [f"{value:.3g}" if isinstance(value, float) else str(value).strip("[]") for value in three]
        return f"{shown[0]} / **{shown[1]}** / {shown[2]}"

    parts = []
    for group, table in document["tables"].items():
        measures = [key for key in table[0]["default"] if key != "value"]
        lines = [{key: cell(row, key) for key in ("value", *measures)} for row in table]
        parts.append(f"`{group}`\n\n" + markdown([{"constant": r["constant"], **x} for r, x in zip(table, lines)]))
    return "\n\n".join(parts)


def training(document: Document) -> str:
    """One step of training, by loss and by way of running."""
    table = [
        {"what": row.get("loss") or row.get("step"), "ms": row["median_ms"], "GiB": row.get("peak_gib")}
        for row in [*document.get("loss", []), *document.get("step", [])]
        if "error" not in row
    ]
    return markdown(table, digits=2)


def encode(document: Document) -> str:
    """Milliseconds by what was encoded and how; of repeated calls the median without the first, which warms up."""
    if "seconds" in document:
        return markdown([{"what": name, "ms": 1000 * value} for name, value in document["seconds"].items()], digits=1)
    table = []
    for name, values in document["milliseconds_per_cloud"].items():
        what = "direct" if name == "direct" else "encode" + name.replace("{}", "").replace("{", " ").replace("}", "")
        middle = statistics.median(values[1:]) if isinstance(values, list) else values
        table.append({"what": what.replace("'", "").replace(": ", "="), "ms per cloud": middle})
    return markdown(table, digits=1)


def headlines(results: Path) -> str:
    """The README's table: one line per claim, ours beside the paper and beside the nearest other method."""

    def read(name: str) -> Document:
        return json.loads((results / name).read_text())

    def joined(values: Iterable[float]) -> str:
        return " / ".join(f"{value:.3f}" for value in values)

    nine = {row["method"]: row for row in evaluation(read("surfaces.json")).means() if row["over"] == PAPER.group}
    ours, robust = nine["direct"], nine["robust"]
    unseen = Generalisation(read("generalisation_mpz14.json")["rows"])
    count = len({row["shape"] for row in unseen.rows if row["domain"] == "surface"})
    alone = {row["start"]: [row[f"k<={k}"] for k in LEVELS] for row in unseen.means() if row["stage"] == "feed-forward"}
    tables = [read(path.name) for path in sorted(results.glob("images*.json"))]
    nmi = {row["method"]: [] for row in tables[0]["rows"]}
    for row in (row for table in tables for row in table["rows"] if row["k"] == 10):
        nmi[row["method"]].append(row["nmi"])
    names = ", ".join(table["facts"]["table"].split("_")[0] for table in tables)
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
            "relative error of the eigenvalues, the same",
            joined([ours["discrepancy"]]),
            joined([ours["paper_discrepancy"]]),
            "robust_laplacian " + joined([robust["discrepancy"]]),
        ),
        (
            f"|cosine|, pretrained, {count} unseen shapes, feed-forward only; k ≤ 10 / 20 / 50",
            joined(alone["network"]),
            joined(alone["the paper, MPZ14"]),
            "its inputs alone " + joined(alone["its inputs alone"]),
        ),
        (f"NMI of k-means in 10 coordinates; {names}", joined(nmi["direct"]), None, "UMAP " + joined(nmi["umap"])),
        (
            "seconds for 50 vectors of 100 000 points, two cores (H200)",
            f"{cpu['direct']['seconds']:.1f} ({gpu['direct']['seconds']:.1f})",
            None,
            f"robust_laplacian {cpu['robust_laplacian']['seconds']:.1f}",
        ),
    ]
    return markdown([dict(zip(("", "eigenprobe", "the paper", "other"), line, strict=True)) for line in lines])


@dataclass(frozen=True)
class Result:
    """Files by pattern, how to show one, and the command that makes it."""

    pattern: str
    show: Callable[[Document], str]
    command: str


TABLES = {
    "surfaces": Result("surfaces*.json", surfaces, "eigenprobe evaluate surfaces ../shared/data/mpz14"),
    "generalisation": Result(
        "generalisation*.json", generalisation, "eigenprobe reproduce generalisation ../shared/data/mpz14"
    ),
    "overfit": Result("training_shapes*.json", overfit, "python -m benchmarks.training shapes"),
    "images": Result(
        "images*.json", images, "eigenprobe reproduce images ../shared/data/embeddings/imagenette_efflite0.npz"
    ),
    "embedding": Result("embedding*.json", rows, "python -m benchmarks.embedding"),
    "direct": Result("direct*.json", direct, "python -m benchmarks.direct"),
    "multigrid": Result("multigrid*.json", multigrid, "python -m benchmarks.multigrid"),
    "constants": Result("constants.json", constants, "python -m benchmarks.constants"),
    "training": Result("training_h200.json", training, "python -m benchmarks.training loss step"),
    "encode": Result("encode*.json", encode, "python -m benchmarks.encode"),
    "scale": Result("scale.json", scale, "python -m benchmarks.scale MESHES"),
    "robustness": Result("robustness.json", robustness, "python -m benchmarks.robustness MESHES"),
}


def filled(text: str, results: Path = RESULTS) -> str:
    """``text`` with every marked place filled."""
    return MARK.sub(lambda match: f"{match[1]}{section(match[2], results)}\n{match[3]}", text)


def section(name: str, results: Path = RESULTS) -> str:
    """All files of one result: the command, when and where it ran, and the table."""
    if name == "headlines":
        return headlines(results)
    if name not in TABLES:
        raise SystemExit(f"benchmarks.readme: no result is called {name!r}, there are headlines, {', '.join(TABLES)}")
    result = TABLES[name]
    shown = []
    for path in sorted(results.glob(result.pattern)):
        for document in _documents(json.loads(path.read_text())):
            facts = {**document, **document.get("facts", {})}
            where = ", ".join(str(facts[key]).split("T")[0] for key in ("device", "machine", "date") if facts.get(key))
            made = facts.get("command", result.command)
            head = f"`{made}`" if made.startswith(("eigenprobe ", "python ")) else made.replace("`", "")
            try:
                shown.append(f"{head}{f' ({where})' if where else ''}:\n\n{result.show(document)}")
            except (KeyError, TypeError, AttributeError) as error:
                raise SystemExit(f"benchmarks.readme: {path.name} has not the form of {name!r}: {error!r}") from error
    return "\n\n".join(shown) if shown else f"Not measured yet: `{result.command}`."


def _documents(content: Document) -> Iterator[Document]:
    """A file is one result, or several by name."""
    if content and all(isinstance(value, dict) and "rows" in value for value in content.values()):
        yield from content.values()
    else:
        yield content


def main() -> None:
    """Rewrite the pages in place."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for page in PAGES:
        before = page.read_text()
        after = filled(before)
        page.write_text(after)
        print(f"{page.name} " + ("is up to date" if after == before else "was filled from benchmarks/results"))


if __name__ == "__main__":
    main()
