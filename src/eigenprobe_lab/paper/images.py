"""The paper's evaluation of Optimal-Approximation Eigenmaps on features of labelled images (or of anything).

features (n, d), labels (n,)  ->  32 random class-weighted subsets of 1500  ->  7 methods x k in {2, 5, 10}
out/records.csv, images.{csv,json,md}, images.tex (the paper's table), embeddings.png (2-D, side by side)
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from eigenprobe.errors import InputError
from eigenprobe.host import tables
from eigenprobe.readers.tables import read_table

from ..evaluation.clustering import METRICS
from .peers import METHODS, Fitted, embed
from .protocol import Protocol, summarise

log = logging.getLogger(__name__)


class Images(tables.Report):
    """One row for each k and method: means and deviations over the runs."""

    def markdown(self) -> str:
        """Mean and deviation of NMI and ARI, the other scores, trustworthiness and seconds; the best in bold."""
        shown = []
        best = {metric: _ranks(self.rows, metric) for metric in ("nmi", "ari")}
        others = [name for name in METRICS if name not in (*best, "v_measure")]  # the V-measure is the NMI
        uneven = len({row["runs"] for row in self.rows}) > 1
        for index, row in enumerate(self.rows):
            cells = {"method": METHODS[row["method"]], "k": row["k"], **({"runs": row["runs"]} if uneven else {})}
            for metric, ranks in best.items():
                text = f"{row[metric]:.3f} ± {row[f'{metric}_std']:.3f}"
                cells[METRICS[metric]] = f"**{text}**" if ranks[index] == 0 else text
            cells |= {METRICS[name]: row[name] for name in others}
            shown.append({**cells, "trust.": row["trustworthiness"], "seconds": row["seconds"]})
        return tables.markdown(shown)


def run(
    features: Path,
    protocol: Protocol,
    out: Path,
    *,
    labels: str | None = None,
    jobs: int = 1,
    fitted: Fitted | None = None,
    say: Callable[[str], None] = log.info,
) -> Images:
    """Run the protocol on a table with labels and write its tables and figure into ``out``."""
    table = read_table(features, labels)
    if table.labels is None:
        raise InputError(f"the protocol compares clusters with labels, {features.name} has none")
    x, y = np.asarray(table.features), np.asarray(table.labels)
    size = min(protocol.n, len(y))
    say(f"{len(protocol.methods)} methods, {protocol.runs} subsets of {size} rows out of {len(y)}")
    records = protocol.records(x, y, jobs, fitted)
    failed = {f"{METHODS[r['method']]}, run {r['run']}": r["error"] for r in records if "error" in r}
    facts = {"table": features.stem, "rows": len(y), "columns": x.shape[1], "classes": len(np.unique(y))}
    result = Images(summarise(records), failed, facts | asdict(protocol)).write(out, "images")
    tables.write_csv(out / "records.csv", records)
    tables.write_text(out / "images.tex", latex(result.rows, features.stem))
    files = [out / "records.csv", out / "images.tex"]
    if 2 in protocol.ks:
        from eigenprobe.viz.charts import embeddings  # scores are measured where nothing draws, too

        rows = protocol.subset(y, 0)
        chosen, seed = protocol.rows(x, rows), protocol.seed
        pictures = {METHODS[name]: embed(name, chosen, (2,), seed, fitted)[0][2] for name in protocol.methods}
        files.append(out / "embeddings.png")
        embeddings(pictures, y[rows], files[-1])
    return replace(result, written=(*result.written, *files))


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
    for index, row in enumerate(rows):
        if index == 0 or row["k"] != rows[index - 1]["k"]:
            lines.append(r"\midrule")
        cells = [_escape(METHODS[row["method"]]), str(row["k"])]
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
