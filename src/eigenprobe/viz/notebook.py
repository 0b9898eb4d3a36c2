"""What a notebook shows: a basis or a map to turn with the mouse, and tables in place of plain
text.

Shapes: points (n, d), vectors (n, K), faces (f, 3) or None. A page of a notebook carries every
number that is drawn, so more than ``LIMIT`` points are thinned.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from ..basis import Basis
from ..host.tables import table_rows
from ..io.mesh import to_numpy
from .report import report_page

LIMIT = 20_000
SHOWN = 6  # eigenvalues in a table


@dataclass(frozen=True)
class InteractiveScene:
    """A page of its own in the frame of a cell, so that nothing of the notebook disturbs it."""

    page: str
    height: int = 560

    def _repr_html_(self) -> str:
        frame = f'style="width:100%;height:{self.height}px;border:0" title="eigenprobe"'
        return f'<iframe {frame} srcdoc="{html.escape(self.page)}"></iframe>'


def interactive_scene(
    basis: Basis,
    *,
    columns: int | Sequence[int] | None = None,
    faces: ArrayLike | None = None,
    limit: int = LIMIT,
) -> InteractiveScene:
    """The report's own scene: upright, with isolines, and a slider over the chosen columns."""
    from .figures import chosen_columns

    some = chosen_columns(to_numpy(basis.vectors), columns)
    picked = replace(
        basis, normalized=basis.normalized[:, some], eigenvalues=basis.eigenvalues[some]
    )
    numbers = (some + 1).tolist()
    shown: Any = {"faces": faces, "limit": limit, "reconstruction": False}
    return InteractiveScene(report_page(picked, bare=True, numbers=numbers, **shown))


def basis_html(basis: Basis) -> str:
    """The facts of a basis and its first eigenvalues as a table."""
    values = to_numpy(basis.eigenvalues)[:SHOWN].clip(0)
    listed = [f"{value:.4g}" for value in values] + ["..."] * (basis.k > SHOWN)
    where = "" if basis.points is None else f" in {basis.points.shape[1]} dimensions"
    facts = {"points": f"{basis.n}{where}", "vectors": basis.k, "eigenvalues": ", ".join(listed)}
    plain = {name: fact for name, fact in basis.info.items() if isinstance(fact, str | int | float)}
    rows = table_rows(facts | plain).replace("<td>", "<td style='text-align:left'>")
    return f"<table><caption style='text-align:left'><b>Basis</b></caption>{rows}</table>"
