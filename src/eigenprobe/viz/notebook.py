"""What a notebook shows: a basis to turn with the mouse, and tables in place of plain text.

Shapes: points (n, d), vectors (n, K), faces (f, 3) or None. A page of a notebook carries every number that is drawn, so
more than ``LIMIT`` points are thinned.
"""

import html
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ..basis import Basis
from ..host.tables import html_table
from ..readers.mesh import to_numpy
from .report import Purpose, Shown, report_page

LIMIT = 20_000
SHOWN = 6  # eigenvalues in a table


class InteractiveScene:
    """The scene of the report in a cell: a page of its own in a frame, so that nothing of the notebook disturbs it."""

    def __init__(self, page: str) -> None:
        self.page = page

    def _repr_html_(self) -> str:
        style = "width:100%;height:560px;border:0"
        return f'<iframe style="{style}" title="eigenfunctions" srcdoc="{html.escape(self.page)}"></iframe>'


def interactive_scene(
    basis: Basis, *, columns: int | Sequence[int] | None = None, faces: ArrayLike | None = None, limit: int = LIMIT
) -> InteractiveScene:
    """The report's own scene: upright, with isolines, and a slider over the chosen columns."""
    from .figures import chosen_columns  # which loads matplotlib

    chosen, _ = chosen_columns(to_numpy(basis.vectors), columns, basis.eigenvalues)
    some = np.asarray(chosen, np.int64)
    picked = replace(basis, normalized=basis.normalized[:, some], eigenvalues=basis.eigenvalues[some])
    purpose = Purpose(bare=True, numbers=(some + 1).tolist())
    shown: Shown = {"faces": faces, "limit": limit, "reconstruction": False}
    return InteractiveScene(report_page(picked, title="eigenfunctions", purpose=purpose, **shown))


def basis_html(basis: Basis) -> str:
    """The facts of a basis and its first eigenvalues as a table."""
    values = to_numpy(basis.eigenvalues)
    listed = ", ".join(f"{value:.4g}" for value in values[:SHOWN].clip(0)) + (", ..." if basis.k > SHOWN else "")
    facts = {"points": basis.n, "vectors": basis.k, "eigenvalues": listed}
    if basis.points is not None:
        facts["points"] = f"{basis.n} in {basis.points.shape[1]} dimensions"
    plain = {name: value for name, value in basis.info.items() if isinstance(value, str | int | float)}
    return html_table("Basis", facts | plain)
