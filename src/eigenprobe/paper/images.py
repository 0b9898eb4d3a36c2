"""The paper's evaluation of Optimal-Approximation Eigenmaps on features of labelled images (or of anything).

features (n, d), labels (n,)  ->  32 random class-weighted subsets of 1500  ->  7 methods x k in {2, 5, 10}
out/records.csv, images.{csv,json,md}, images.tex (the paper's table), embeddings.png (2-D, side by side)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..estimators.rows import read_table
from ..evaluation import tables
from ..evaluation.clustering import METRICS
from ..files import atomic_path
from .peers import METHODS, TITLES, check_methods
from .protocol import DEFICIT, run_protocol, summarise, weighted_subset

log = logging.getLogger(__name__)
Array = NDArray[Any]


@dataclass(frozen=True)
class ImagesResult:
    """Records of every run, their summary (one row for each k and method) and the files written."""

    records: list[dict[str, Any]]
    rows: list[Mapping[str, Any]]
    files: list[Path]

    def markdown(self) -> str:
        """NMI, ARI, trustworthiness and seconds."""
        return markdown(self.rows)


def run(
    features: Path,
    *,
    out: Path,
    runs: int = 32,
    n: int = 1500,
    ks: Sequence[int] = (2, 5, 10),
    methods: Sequence[str] = tuple(METHODS),
    labels: str | None = None,
    seed: int = 0,
    jobs: int = 1,
    deficit: tuple[float, float] = DEFICIT,
    title: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> ImagesResult:
    """Run the protocol on a table with labels and write its tables and figure into ``out``.

    ``methods`` are names of `evaluation.peers.METHODS`; ``progress`` is called with one line now and then.
    """
    check_methods(methods)
    table = read_table(features, labels)
    if table.labels is None:
        raise InputError(f"the protocol compares clusters with labels, {Path(features).name} has none")
    say = progress or log.info
    say(f"{len(methods)} methods, {runs} subsets of {min(n, len(table.labels))} rows out of {len(table.labels)}")
    x, y = np.asarray(table.features), np.asarray(table.labels)
    options: dict[str, Any] = {"runs": runs, "n": n, "ks": ks, "methods": methods, "seed": seed, "deficit": deficit}
    records = run_protocol(x, y, jobs=jobs, **options)
    failed = [record for record in records if "error" in record]
    for record in failed:
        log.warning("%s failed in run %d: %s", TITLES[record["method"]], record["run"], record["error"])
    rows = summarise(records)
    out, name = Path(out), title or Path(features).stem
    facts = {"table": name, "rows": len(y), "columns": x.shape[1], "classes": len(np.unique(y)), "failed": len(failed)}
    facts |= {**options, "methods": list(methods), "ks": list(ks)}
    files = tables.write(out, "images", rows, text=markdown(rows), facts=facts)
    tables.write_csv(out / "records.csv", records)
    with atomic_path(out / "images.tex") as temporary:
        temporary.write_text(latex(rows, name), encoding="utf-8")
    files += [out / "records.csv", out / "images.tex"]
    if 2 in ks:
        files.append(_figure(x, y, methods, out / "embeddings.png", n, seed, deficit))
    return ImagesResult(records, rows, files)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mean and deviation of NMI and ARI, trustworthiness and seconds; the best of every k in bold."""
    shown = []
    best = {metric: _ranks(rows, metric) for metric in ("nmi", "ari")}
    for index, row in enumerate(rows):
        cells = {"method": TITLES.get(row["method"], row["method"]), "k": row["k"]}
        for metric in ("nmi", "ari"):
            text = f"{row[metric]:.3f} ± {row[f'{metric}_std']:.3f}"
            cells[METRICS[metric]] = f"**{text}**" if best[metric][index] == 0 else text
        shown.append({**cells, "trust.": row["trustworthiness"], "seconds": row["seconds"]})
    return tables.markdown(shown)


def latex(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    r"""The paper's table: seven scores as mean $\pm$ deviation, best bold, second underlined, a rule between the k."""
    ranks = {metric: _ranks(rows, metric) for metric in METRICS}
    lines = [
        r"\begin{tabular}{llccccccc}",
        r"\toprule",
        rf"\multicolumn{{9}}{{c}}{{\textbf{{{_escape(title)}}}}} \\",
        r"\midrule",
        "Method & $k$ & " + " & ".join(METRICS.values()) + r" \\",
    ]
    before = None
    for index, row in enumerate(rows):
        if row["k"] != before:
            lines.append(r"\midrule")
            before = row["k"]
        cells = [_escape(TITLES.get(row["method"], row["method"])), str(row["k"])]
        for metric in METRICS:
            text = rf"{row[metric]:.3f} $\pm$ {row[f'{metric}_std']:.3f}"
            mark = {0: r"\textbf{%s}", 1: r"\underline{%s}"}.get(ranks[metric][index], "%s")
            cells.append(mark % text)
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _ranks(rows: Sequence[Mapping[str, Any]], metric: str) -> list[int]:
    """Place of every row among those of its k, by mean score; 0 is the best."""
    return [sum(other["k"] == row["k"] and other[metric] > row[metric] for other in rows) for row in rows]


def _escape(text: str) -> str:
    return text.replace("_", r"\_").replace("&", r"\&").replace("%", r"\%")


def _figure(
    x: Array, y: Array, methods: Sequence[str], path: Path, n: int, seed: int, deficit: tuple[float, float]
) -> Path:
    """All methods in two dimensions on the first subset."""
    from ..viz.figures import embeddings

    rows = weighted_subset(y, min(n, len(y)), np.random.default_rng([seed, 0]), deficit)
    chosen = np.asarray(x[rows], np.float32)
    pictures = {TITLES[name]: METHODS[name](chosen, (2,), seed)[0][2] for name in methods}
    embeddings(pictures, y[rows], path)
    return path
