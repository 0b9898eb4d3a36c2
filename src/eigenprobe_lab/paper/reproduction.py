"""One table of the paper's experiments, each by its own way and by ours.

    setting | data | published | the paper's way here | closed form of its probes | ours | remark

The closed form of the paper's own probes is the span that rebuilds them best on one sampling; the
hybrid loss of a trained basis may be smaller, because it also chooses the mass.  A published
number stands beside the same data only; otherwise the remark says why there is none.  The quick
forms of the commands are so small that two cores need a minute: they show that a way runs, not
what it reaches.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from eigenprobe.host.tables import Row
from eigenprobe.probes import Probes
from eigenprobe_lab.evaluation.reports import grouped, mean_row

from ..evaluation.unseen import LEVELS
from .images_recipe import ImagesRecipe
from .published import COLLECTIONS, DIFFERENT, published_scores, single_shape
from .released import METHOD as RELEASED
from .toy1d import FUNCTIONS, LOSSES

Rows = Sequence[Row]
COLUMNS = (
    "setting",
    "data",
    "published",
    "the paper's way here",
    "closed form of its probes",
    "ours",
    "remark",
)
THEIRS = "the paper's way"
CLOSED, ORACLE, OURS = "closed form of its probes", "the oracle's vectors", "closed form"
QUICK_PROBES = Probes(
    200, steps=20, k=10, sigma=(0.05, 0.3)
)  # a few hundred points are further apart than 4000
REASONS = {
    "quick": "small sizes: it runs, no more",
    "toy": "the paper shows a figure; ours is the expected loss",
    "shape": "the probes follow the density of the points",
    "unknown": "not a shape of the paper",
    "unseen": "{steps} steps here; 200 000 scans and models for 100 epochs there",
    "collection": "not a collection of the paper",
    "images": "{steps} steps; the paper does not say how many",
    "features": "not features of the paper, probes tuned on development rows",
}


def line(*cells: str) -> dict[str, str]:
    """One line of the table, a text for each of `COLUMNS`."""
    return dict(zip(COLUMNS, cells, strict=False))


def cell(rows: Rows, keys: Iterable[str], missing: str = "not measured", **match: Any) -> str:
    """Means of some columns over the rows that match, as ``a / b / c``."""
    means = mean_row([row for row in rows if match.items() <= row.items()], list(keys)).values()
    return (
        " / ".join("-" if value is None else f"{value:.3f}" for value in means)
        if any(means)
        else missing
    )


def toy_lines(rows: Rows) -> list[dict[str, str]]:
    """Five functions on the interval; the paper shows them in a figure, without numbers."""
    paper, ours = (cell(rows, FUNCTIONS[1:], loss=title) for title in LOSSES.values())
    about = ("|cosine| with cos pi x, 2 pi x, 3 pi x, 4 pi x", "100 points of the interval", "none")
    return [line(*about, paper, "-", ours, REASONS["toy"])]


def shape_lines(rows: Rows, ks: Sequence[int], quick: bool = False) -> list[dict[str, str]]:
    """|cosine| by level and eigenvalues of one shape; ours is the closed form `direct`."""
    shape, cosines = rows[0]["shape"], [f"cosine_{k}" for k in ks]
    printed = single_shape(shape)
    why = REASONS["quick"] if quick else "" if printed else REASONS["unknown"]
    found = [cell(rows, cosines, method=method) for method in (_theirs(rows), CLOSED, OURS)]
    reason = why or DIFFERENT.get(shape, ("", REASONS["shape"]))[1]
    setting = f"one shape, |cosine| k <= {' / '.join(map(str, ks))}"
    lines = [line(setting, shape, cell([printed], cosines, "none"), *found, reason)]
    return [*lines, *eigenvalue_lines(rows, shape, [printed])]


def _theirs(rows: Rows) -> str:
    """Which of the paper's ways was taken."""
    return RELEASED if any(row["method"] == RELEASED for row in rows) else THEIRS


def eigenvalue_lines(rows: Rows, data: str, printed: Rows) -> list[dict[str, str]]:
    """Errors of eigenvalues by largest errors, with what the same estimator gives without any
    learning, and by Rayleigh quotients of the same vectors."""
    theirs, key = _theirs(rows), "discrepancy"
    remark = ", ".join(
        f"{name} {cell(rows, [key], method=name)}"
        for name in ("random weights", "polynomials", ORACLE)
        if any(row["method"] == name for row in rows)
    )
    return [
        line(
            "eigenvalues by largest errors, relative error",
            data,
            cell(printed, [key], "none"),
            *(cell(rows, [key], method=method) for method in (theirs, CLOSED, OURS)),
            f"by the same estimator: {remark}",
        ),
        line(
            "the same vectors, Rayleigh quotients",
            data,
            "none",
            *(cell(rows, [f"{key}_rayleigh"], method=method) for method in (theirs, CLOSED)),
            "-",
            "not the paper's estimator",
        ),
    ]


def unseen_lines(
    rows: Rows, name: str, steps: int, k: int = 50, quick: bool = False
) -> list[dict[str, str]]:
    """|cosine| of unseen shapes of one collection, feed-forward."""
    keys = [f"k<={i}" for i in (10, 20, 50) if i <= k] or [f"k<={LEVELS[0]}"]
    printed = dict(zip((f"k<={i}" for i in LEVELS), COLLECTIONS.get(name, ()), strict=False))
    kind = "quick" if quick else "unseen" if printed else "collection"
    found = [
        cell(rows, keys, start=start, stage="feed-forward") for start in (THEIRS, CLOSED, "network")
    ]
    data = f"{len(grouped(rows, 'shape'))} shapes{f' of {name}' if name else ''}"
    setting = f"unseen shapes, |cosine| {' / '.join(keys)}"
    return [
        line(
            setting, data, cell([printed], keys, "none"), *found, REASONS[kind].format(steps=steps)
        )
    ]


def image_lines(
    rows: Rows, data: str, recipe: ImagesRecipe, published: bool, quick: bool = False
) -> list[dict[str, str]]:
    """NMI and ARI of k-means at each number of coordinates."""
    lines, kind = [], "quick" if quick else "images" if published else "features"
    for k in dict.fromkeys(row["k"] for row in rows):
        printed = published_scores(recipe.dataset, recipe.extractor, k) if published else {}
        found = [
            cell(rows, ("nmi", "ari"), k=k, method=method)
            for method in ("paper", "probes", "direct")
        ]
        about = (
            f"clusters in {k} coordinates, NMI / ARI",
            data,
            cell([printed], ("nmi", "ari"), "none"),
        )
        lines.append(line(*about, *found, REASONS[kind].format(steps=recipe.steps)))
    return lines
