"""Fill the README's tables from ``benchmarks/results/*.json``, so that no number there is typed by hand.

    <!-- results: NAME -->  ...  <!-- end -->      everything between the marks is replaced by NAME.json as Markdown

A result file is what the measuring commands write: ``{"facts": {...}, "rows": [{column: value}, ...]}``. Where the file
is absent, the text says so and gives the command that makes it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
MARK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)

Document = dict[str, Any]

# name -> the command that prints the numbers (its JSON is copied to benchmarks/results/NAME.json)
COMMANDS = {
    "surfaces": "eigenprobe evaluate surfaces ../shared/data/mpz14",
    "generalisation": "eigenprobe reproduce generalisation ../shared/data/mpz14",
    "overfit": "eigenprobe reproduce overfit ../shared/data/mpz14 --device cuda",
    "images": "eigenprobe reproduce images ../shared/data/embeddings/imagenette_efflite0.npz",
    "direct": "python -m benchmarks.direct",
}


def filled(text: str, results: Path = RESULTS) -> str:
    """``text`` with every marked place filled."""
    return MARK.sub(lambda match: f"{match[1]}{section(match[2], results)}\n{match[3]}", text)


def section(name: str, results: Path = RESULTS) -> str:
    """One result as Markdown: the command, when and where it ran, and the table."""
    if name not in COMMANDS:
        raise SystemExit(f"benchmarks.readme: no result is called {name!r}, there are {', '.join(COMMANDS)}")
    path = results / f"{name}.json"
    if not path.is_file():
        return f"Not measured yet: `{COMMANDS[name]}`."
    document: Document = json.loads(path.read_text())
    facts = document.get("facts", {})
    where = ", ".join(str(facts[key]) for key in ("machine", "date") if facts.get(key))
    line = f"`{facts.get('command', COMMANDS[name])}`" + (f" ({where})" if where else "") + ":"
    return f"{line}\n\n{RENDERERS.get(name, plain)(document)}"


def plain(document: Document) -> str:
    """All rows, all columns."""
    from eigenprobe.evaluation.tables import markdown

    return markdown(document["rows"])


def surfaces(document: Document) -> str:
    """The paper's table: each shape and the means, the paper's column beside ours."""
    from eigenprobe.evaluation.surface_report import Evaluation

    rows, facts = document["rows"], document["facts"]
    levels = tuple(sorted({int(key.split("_")[1]) for row in rows for key in row if re.fullmatch(r"cosine_\d+", key)}))
    return Evaluation(rows, facts.get("failed", {}), facts, levels).markdown().split("\n\n")[0]


RENDERERS: dict[str, Callable[[Document], str]] = {"surfaces": surfaces}


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
