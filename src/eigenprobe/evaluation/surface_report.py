"""The rows of an evaluation as tables a person reads: per shape, and means over "the nine" and over all.

headline   shape x (paper, methods...) x (k <= 10, 20, 50, eigenvalue discrepancy)
details    one line a shape and method: matched, subspace, reconstruction over the oracle's, mass, seconds
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..paper.published import NINE
from . import tables


@dataclass(frozen=True)
class Evaluation:
    """What `surfaces.run` found: ``rows`` (one a shape and method), what ``failed``, and what was ``written``."""

    rows: list[dict[str, Any]]
    failed: dict[str, str]
    facts: dict[str, Any]
    levels: tuple[int, ...]
    written: tuple[Path, ...] = ()

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(row["method"] for row in self.rows))

    @property
    def shapes(self) -> list[str]:
        return list(dict.fromkeys(row["shape"] for row in self.rows))

    def of(self, method: str, shapes: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The rows of one method, of all shapes or of some."""
        return [row for row in self.rows if row["method"] == method and (shapes is None or row["shape"] in shapes)]

    def mean(self, method: str, shapes: Sequence[str] | None = None) -> dict[str, Any]:
        """Column means of one method over all shapes or over some."""
        rows = self.of(method, shapes)
        numbers = [name for name in tables.columns_of(rows) if name not in ("shape", "method", "note")]
        return tables.mean_row(rows, numbers, shapes=len(rows), method=method)

    def means(self) -> list[dict[str, Any]]:
        """Means of every method over the nine (where measured) and over all shapes."""
        nine = [name for name in NINE if name in self.shapes]
        groups: list[tuple[str, list[str] | None]] = [("all", None)]
        if nine and len(nine) < len(self.shapes):
            groups.insert(0, (f"the nine ({len(nine)})" if len(nine) < len(NINE) else "the nine", nine))
        return [{"over": name, **self.mean(method, group)} for name, group in groups for method in self.methods]

    def better_rebuilt(self, method: str) -> dict[int, list[str]]:
        """For each level, the shapes whose coordinates ``method`` rebuilds better than the oracle's basis does."""
        return {
            k: [row["shape"] for row in self.of(method) if (row.get(f"rebuild_ratio_{k}") or 1.0) < 1.0]
            for k in self.levels
        }

    def markdown(self) -> str:
        """The whole report."""
        parts = [self._headline(), self._means(), self._details(), *self._remarks()]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, out: Path, figures: Path | None = None) -> Evaluation:
        """CSV, JSON and Markdown in ``out``; the same evaluation with the paths in ``written``."""
        name = "volumes" if self.facts.get("volume") else "surfaces"
        facts = {**self.facts, "failed": self.failed, "means": self.means()}
        paths = tables.write(out, name, self.rows, text=self.markdown(), facts=facts)
        if figures is not None and figures.is_dir():
            paths += sorted(figures.glob("*.png"))
        return replace(self, written=tuple(paths))

    def _headline(self) -> str:
        """The paper's table: by level, the paper's number and then each method's."""
        compared = [method for method in self.methods if method != "oracle"]
        measures = {f"cosine_{k}": f"k≤{k}" for k in self.levels} | {"discrepancy": "λ disc."}
        rows = []
        for shape in self.shapes:
            own = {row["method"]: row for row in self.rows if row["shape"] == shape}
            rows.append(self._wide(shape, own, measures, compared))
        for group in dict.fromkeys(mean["over"] for mean in self.means()):
            own = {mean["method"]: mean for mean in self.means() if mean["over"] == group}
            rows.append(self._wide(f"**mean, {group}**", own, measures, compared))
        columns = {"shape": "shape"}
        for key, title in measures.items():
            if any(row.get(f"{key} paper") is not None for row in rows):
                columns[f"{key} paper"] = f"{title} paper"
            columns |= {f"{key} {method}": f"{title} {method}" for method in compared}
        return tables.markdown(rows, columns)

    @staticmethod
    def _wide(name: str, own: dict[str, Any], measures: dict[str, str], methods: list[str]) -> dict[str, Any]:
        first = next(iter(own.values()))
        row: dict[str, Any] = {"shape": name}
        for key in measures:
            row[f"{key} paper"] = first.get(f"paper_{key}")
            row |= {f"{key} {method}": own[method].get(key) if method in own else None for method in methods}
        return row

    def _means(self) -> str:
        columns = {"over": "mean over", "method": "method", "shapes": "shapes"}
        columns |= {f"cosine_{k}": f"k≤{k}" for k in self.levels}
        columns |= {"discrepancy": "λ disc.", "deviation": "±"}
        columns |= {f"rebuild_ratio_{k}": f"xyz/oracle k={k}" for k in self.levels}
        columns |= self._mass_column() | {"seconds": "s"}
        return tables.markdown(self.means(), columns, formats={"seconds": ".2f"})

    def _details(self) -> str:
        columns = {"shape": "shape", "method": "method", "n": "n"}
        columns |= {f"matched_{k}": f"matched {k}" for k in self.levels}
        columns |= {f"subspace_{k}": f"subspace {k}" for k in self.levels}
        columns |= {"deviation": "λ disc. ±"}
        columns |= {f"rebuild_ratio_{k}": f"xyz/oracle {k}" for k in self.levels}
        columns |= self._mass_column()
        if self.facts.get("volume"):
            columns["dimension"] = "dim"
        columns["seconds"] = "s"
        return tables.markdown(self.rows, columns, formats={"seconds": ".2f"})

    def _mass_column(self) -> dict[str, str]:
        return {"mass_correlation": "mass~area"} if any("mass_correlation" in row for row in self.rows) else {}

    def _remarks(self) -> list[str]:
        remarks = []
        for method in self.methods:
            if method in ("oracle", "robust"):
                continue
            better = {k: names for k, names in self.better_rebuilt(method).items() if names}
            if better:
                told = "; ".join(f"k={k}: {', '.join(names)}" for k, names in better.items())
                remarks.append(f"Coordinates rebuilt better by {method} than by the oracle's basis: {told}.")
        notes = {row["shape"]: row["note"] for row in self.rows if row.get("note")}
        if notes and not self.facts.get("volume"):
            told = "; ".join(f"{shape} ({note})" for shape, note in notes.items())
            remarks.append(f"Files that differ from the paper's: {told}.")
        remarks += [f"Skipped {name}: {why}." for name, why in self.failed.items()]
        return remarks
