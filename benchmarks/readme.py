"""Fill the tables of the README and of results and paper in docs from
``benchmarks/results/*.json``.

    <!-- results: NAME -->  ...  <!-- end -->      everything between the marks is replaced by
    NAME's files as Markdown

No number there is typed by hand. Where no file is there yet, the text says so and gives the command
that makes it. ``python -m benchmarks.readme`` (or ``make readme``) rewrites the pages; a test fails
while one is out of date. A file whose sample gives other numbers today (`catalogue`) is refused;
``--stale`` shows it, marked. One without a sample is shown and marked as unconfirmed. A mark says
whether a GPU is needed to measure it again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.catalogue import ROOT, made_by, state
from benchmarks.paper_tables import DETAILS
from benchmarks.shown import TABLES as SHOWN
from benchmarks.shown import Document
from benchmarks.summaries import SUMMARIES

RESULTS = ROOT / "benchmarks" / "results"
TABLES = SHOWN | DETAILS
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "paper.md")
MARKS = {
    "stale": "Stale, a small sample gives other numbers today",
    "unconfirmed": "Unconfirmed, without a sample of this measurement",
}
MARK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def filled(text: str, results: Path | None = None) -> str:
    """``text`` with every marked place filled."""
    return MARK.sub(
        lambda match: f"{match[1]}{section(match[2], results or RESULTS)}\n{match[3]}", text
    )


def section(name: str, results: Path) -> str:
    """All files of one result: the command, when and where it ran, and the table."""
    if name in SUMMARIES:
        files, summary = SUMMARIES[name]
        marks: dict[str, list[str]] = {}
        for path in _files(files, results):
            marks.setdefault(_state(path), []).append(f"`{path.name}` ({_made(path)})")
        said = [
            f"\n\n*{words}: {', '.join(marks[kind])}.*"
            for kind, words in MARKS.items()
            if kind in marks
        ]
        return summary(results) + "".join(said)
    if name not in TABLES:
        known = ", ".join((*SUMMARIES, *TABLES))
        raise SystemExit(f"benchmarks.readme: no result is called {name!r}, there are {known}")
    result = TABLES[name]
    shown = []
    for path in _files([result.pattern], results):
        for document in _documents(json.loads(path.read_text())):
            try:
                shown.append(f"{_head(path, document)}\n\n{result.show(document)}")
            except (KeyError, TypeError, AttributeError) as error:
                raise SystemExit(
                    f"benchmarks.readme: {path.name} has not the form of {name!r}: {error!r}"
                ) from error
    return "\n\n".join(shown) if shown else f"Not measured yet: {result.commands}."


def _head(path: Path, document: Document) -> str:
    """What made a table, where and when."""
    facts = {**document, **document.get("facts", {})}
    made, where = made_by(path.name), _where(facts, "device", "date", "commit")
    if mark := MARKS.get(_state(path)):
        again = "measures it again, on a GPU" if made.gpu else "measures it again"
        return f"*{mark}* ({where}); `{made.command}` {again}:"
    given = str(facts.get("command", made.command)).replace("../shared/data", "$DATA")
    return f"`{given}` ({where}):"


def _where(facts: Document, *keys: str) -> str:
    return ", ".join(str(facts[key]).split("T")[0] for key in keys if facts.get(key))


def _made(path: Path) -> str:
    """When and from which commit a file was made, and whether a GPU has to make it again."""
    found = json.loads(path.read_text())
    made = _where({**found, **found.get("facts", {})}, "date", "commit")
    return f"{made}; needs a GPU" if made_by(path.name).gpu else made


def _files(patterns: Iterable[str], results: Path) -> list[Path]:
    return sorted(path for pattern in patterns for path in results.glob(pattern))


def _state(path: Path) -> str:
    return state(path.name, json.loads(path.read_text()))


def _documents(content: Document) -> Iterator[Document]:
    """A file is one result, or several by name."""
    if content and all(isinstance(value, dict) and "rows" in value for value in content.values()):
        yield from content.values()
    else:
        yield content


def main() -> None:
    """Rewrite the pages in place."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stale", action="store_true", help="show stale numbers, marked")
    options = parser.parse_args()
    files = _files([shown.pattern for shown in TABLES.values()], RESULTS)
    old = [path.name for path in files if _state(path) == "stale"]
    if old and not options.stale:
        for name in dict.fromkeys(old):
            print(
                f"{name} is stale, its sample differs today: run {made_by(name).command}",
                file=sys.stderr,
            )
        sys.exit(f"benchmarks.readme: {len(set(old))} files are stale (--stale shows them marked)")
    for page in PAGES:
        before = page.read_text()
        after = filled(before)
        page.write_text(after)
        print(
            f"{page.name} "
            + ("is up to date" if after == before else "was filled from benchmarks/results")
        )


if __name__ == "__main__":
    main()
