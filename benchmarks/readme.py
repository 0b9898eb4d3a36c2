"""Fill the README's tables from ``benchmarks/results/*.json``, so that no number there is typed by hand.

    <!-- results: NAME -->  ...  <!-- end -->      everything between the marks is replaced by NAME's files as Markdown

Where no file is there yet, the text says so and gives the command that makes it. ``python -m benchmarks.readme`` (or
``make readme``) rewrites README.md; a test fails while it is out of date.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenprobe.evaluation.tables import markdown

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
MARK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
LEVELS = (10, 20, 50)

Document = dict[str, Any]


def rows(document: Document) -> str:
    """All rows, all columns."""
    return markdown(document["rows"])


def surfaces(document: Document) -> str:
    """The paper's table: each shape and the means, the paper's column beside ours."""
    from eigenprobe.evaluation.surface_report import Evaluation

    found, facts = document["rows"], document["facts"]
    keys = {key for row in found for key in row if re.fullmatch(r"cosine_\d+", key)}
    levels = tuple(sorted(int(key.split("_")[1]) for key in keys))
    report = Evaluation(found, facts.get("failed", {}), facts, levels).markdown().split("\n\n")
    # the headline by shape, the means, and the remarks; the details by shape stay in the command's own files
    return "\n\n".join([*report[:2], *report[3:]]).strip()


def generalisation(document: Document) -> str:
    """Means over the shapes: starts and stages, the paper's rows first."""
    from eigenprobe.paper.generalisation import Generalisation

    facts = document["facts"]
    return Generalisation(document["rows"], facts.get("failed", {}), facts).markdown().strip()


def overfit(document: Document) -> str:
    """Means over the shapes of the network, the closed form and the paper, and the time to get within 1 %."""
    from eigenprobe.paper.published import published

    good = [row for row in document.get("shapes", document.get("rows", [])) if "error" not in row]
    for row in good:
        printed = published(row["shape"])
        if "paper" not in row and printed is not None:
            row["paper"] = {f"cosine_{k}": getattr(printed, f"cosine_{k}") for k in LEVELS}
            row["paper"]["discrepancy"] = printed.discrepancy
    table = []
    for kind in ("feedforward", "ritz", "closed form", "paper"):
        kept = [row[kind] for row in good if row.get(kind)]
        if kept:
            means = {key: sum(row[key] for row in kept) / len(kept) for key in kept[0]}
            table.append({"result": kind, "shapes": len(kept), **means})
    titles = {"result": "mean of", "shapes": "shapes"} | {f"cosine_{k}": f"k≤{k}" for k in LEVELS}
    reached = [row["seconds_to_1_percent"] for row in good if row.get("seconds_to_1_percent") is not None]
    closing = f"Within 1 % of the closed form's loss on held-out resamplings: {len(reached)} of {len(good)} shapes"
    closing += f", after {max(reached):.1f} s of training at most." if reached else "."
    return markdown(table, titles | {"discrepancy": "λ disc."}) + "\n\n" + closing


def images(document: Document) -> str:
    """Scores of every method at every k, the best in bold."""
    from eigenprobe.paper.images import markdown as scores

    return f"{document['facts'].get('table', '')}:\n\n{scores(document['rows'])}".removeprefix(":\n\n")


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
    for name, values in document["milliseconds_a_cloud"].items():
        what = "direct" if name == "direct" else "encode" + name.replace("{}", "").replace("{", " ").replace("}", "")
        middle = statistics.median(values[1:]) if isinstance(values, list) else values
        table.append({"what": what.replace("'", "").replace(": ", "="), "ms a cloud": middle})
    return markdown(table, digits=1)


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
    "training": Result("training_h200.json", training, "python -m benchmarks.training loss step"),
    "encode": Result("encode*.json", encode, "python -m benchmarks.encode"),
}


def filled(text: str, results: Path = RESULTS) -> str:
    """``text`` with every marked place filled."""
    return MARK.sub(lambda match: f"{match[1]}{section(match[2], results)}\n{match[3]}", text)


def section(name: str, results: Path = RESULTS) -> str:
    """All files of one result: the command, when and where it ran, and the table."""
    if name not in TABLES:
        raise SystemExit(f"benchmarks.readme: no result is called {name!r}, there are {', '.join(TABLES)}")
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


def main() -> int:
    """Rewrite README.md in place."""
    readme = ROOT / "README.md"
    before = readme.read_text()
    after = filled(before)
    readme.write_text(after)
    print("README.md " + ("is up to date" if after == before else "was filled from benchmarks/results"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
