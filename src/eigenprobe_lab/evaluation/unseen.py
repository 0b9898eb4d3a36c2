"""The table of unseen shapes: |cosine| with the oracle, averaged over i <= 5, 10, ..., 50, by start
and stage.

Measured by `pretrained` (our model) and by `paper.generalisation` (the paper's network); both have
`polynomials` of the input beside them, which no training has touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from eigenprobe.evaluation import compare_vectors
from eigenprobe.host.tables import Record
from eigenprobe.io.mesh import Array
from eigenprobe_lab.evaluation.reports import Report, grouped, markdown, mean_row

Published = Mapping[str, Sequence[float]]  # by collection, one number per level
LEVELS = tuple(range(5, 55, 5))


@dataclass(frozen=True)
class Generalisation(Report):
    """Rows: one per shape, start and stage (and one per shape for the closed form); ``published``
    rows stand first.
    """

    published: Published = field(default_factory=dict)

    def means(self, domain: str = "surface") -> list[Record]:
        """Mean over the shapes, one row per start and stage, published rows first."""
        chosen = [row for row in self.rows if row["domain"] == domain]
        numbers = [name for name in chosen[0] if name.startswith(("k<=", "subspace"))]
        table = []
        if domain == "surface":
            for name, values in self.published.items():
                printed = {
                    f"k<={k}": value
                    for k, value in zip(LEVELS, values, strict=True)
                    if f"k<={k}" in numbers
                }
                about = {"start": f"the paper, {name}", "stage": "feed-forward"}
                table.append(about | printed | {"subspace 10": "not printed"})
        for (start, stage), rows in grouped(chosen, "start", "stage").items():
            table.append(mean_row(rows, numbers, start=start, stage=stage))
        return table

    def markdown(self) -> str:
        parts = []
        for (domain,), rows in grouped(self.rows, "domain").items():
            count = len({row["shape"] for row in rows})
            against = (
                "the mesh oracle" if domain == "surface" else "the closed form on the same points"
            )
            parts.append(
                f"{count} unseen {domain}s, n={self.facts['n']}, |cosine| with {against}, "
                "mean over i <= k"
            )
            parts.append(markdown(self.means(domain)))
        return "\n\n".join(parts) + "\n"


def agreement_by_level(vectors: Array, truth: Array) -> dict[str, float]:
    """|cosine| of vectors ``(n, k)`` with the oracle's, averaged over i <= 5, 10, ..., k."""
    k = vectors.shape[1]
    alignment = compare_vectors(vectors, truth, np.zeros(k), np.zeros(k))
    cosines = {f"k<={level}": alignment.cosine(level) for level in LEVELS if level <= k}
    return cosines | {"subspace 10": alignment.subspace(min(10, k))}


def polynomials(points: Tensor, k: int) -> Tensor:
    """The first ``k`` monomials of the coordinates ``(n, 3)`` by degree: what the input gives
    without a network.
    """
    powers = sorted(
        ((a, b, c) for a in range(9) for b in range(9) for c in range(9) if a + b + c < 9), key=sum
    )
    return torch.stack(
        [(points ** torch.tensor(power).to(points)).prod(1) for power in powers[:k]], 1
    )
