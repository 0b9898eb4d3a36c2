"""Commands that measure against an oracle: ``evaluate surfaces|neighbours|volumes|scans``."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from eigenprobe.cli.session import SHARED, K, Samples, Session, Switch

Measured = Literal["direct", "network", "pretrained", "robust", "oracle"]


def surfaces(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct", "robust"],  # noqa: B006
    n: Samples = 4000,
    k: K = 50,
    figures: Switch = True,
    jobs: int = 1,
    session: Session = SHARED,
) -> None:
    """Alignment with the cotangent oracle on meshes, with the paper's columns and figures.

    For example:

        eigenprobe evaluate surfaces meshes/
        eigenprobe evaluate surfaces bunny.obj --methods direct pretrained --samples 1500

    Args:
        shapes: mesh files, or folders of them
        methods: what to measure; robust is the robust_laplacian package, oracle the mesh Laplacian
            itself
        n: points of each shape (farthest points of its vertices)
        k: basis size
        figures: draw the figures
        jobs: shapes in parallel, -1 for one per core
    """
    _evaluate(shapes, session, jobs, figures, methods=methods, n=n, k=k)


def neighbours(
    shapes: list[Path],
    *,
    points: list[int] = [500, 1500, 4000],  # noqa: B006
    noise: list[float] = [0.0],  # noqa: B006
    jobs: int = 1,
    session: Session = SHARED,
) -> None:
    """Which neighbours are real: plain, learned, cut by an oracle, robust_laplacian.

    For example:

        eigenprobe evaluate neighbours meshes/ --points 500 1500 --noise 0 0.01

    Args:
        shapes: mesh files, or folders of them
        points: sizes of the clouds
        noise: standard deviations of noise to add, of the radius
        jobs: shapes in parallel, -1 for one per core
    """
    from ..evaluation.neighbours import NeighbourMeasure, compare_neighbours

    measure = NeighbourMeasure(tuple(points), tuple(noise), seed=session.seed)
    folder = session.folder("neighbours")
    compare_neighbours(shapes, measure, jobs).write(folder, "neighbours").tell(session)
    session.finish(f"measured neighbours at {', '.join(map(str, points))} points")


def volumes(
    shapes: list[Path],
    *,
    methods: list[Measured] = ["direct"],  # noqa: B006 (a default for the parser; never changed)
    n: Samples = 4000,
    k: K = 50,
    figures: Switch = True,
    jobs: int = 1,
    session: Session = SHARED,
) -> None:
    """The same on points inside closed meshes, against a Laplacian on a grid that fills them.

    For example:

        eigenprobe evaluate volumes solid.off --samples 3000

    Args:
        shapes: closed mesh files, or folders of them
        methods: what to measure
        n: interior points of each shape
        k: basis size
        figures: draw the figures
        jobs: shapes in parallel, -1 for one per core
    """
    _evaluate(shapes, session, jobs, figures, methods=methods, n=n, k=k, volume=True)


def scans(
    shapes: list[Path],
    *,
    k: Annotated[list[int], Parameter(alias="-k")] = [10, 20],  # noqa: B006
    points: int = 4000,
    kinds: list[str] = [],  # noqa: B006
    jobs: int = 1,
    session: Session = SHARED,
) -> None:
    """Meshes as a virtual scanner measures them: every kind of damage, plain, ours and
    robust_laplacian.

    Kinds: even, random, rings:R (six spinning scans merged, rings R times as far apart as points on
    them), side:R (one such scan), depth:S (one depth image, a share S of the pixels at edges fly),
    noise:S, misregistered:S (in radii), strays:S (a share), blobs, floor, step:R (of density),
    voxels:N (along the longest side).

    For example:

        eigenprobe evaluate scans meshes/ --kinds even rings:8 noise:0.01
        eigenprobe evaluate scans bunny.obj -k 10 20 --points 2000 --jobs 2

    Args:
        shapes: mesh files, or folders of them
        k: levels of the cosines
        points: points of each cloud (noise and misregistered: four times as many; voxels: as many
            as are crossed)
        kinds: kinds of damage, all of the table by default
        jobs: clouds in parallel, -1 for one per core
    """
    from ..evaluation.scans import ROWS, ScanMeasure, compare_scans

    measure = ScanMeasure(kinds or ROWS, k, points, session.seed)
    folder = session.folder("scans")
    report = compare_scans(shapes, measure, jobs).write(folder, "scans")
    report.tell(session)
    session.finish(f"measured {len(report.rows)} decompositions")


def _evaluate(
    shapes: list[Path], session: Session, jobs: int, figures: bool, **settings: Any
) -> None:
    """Tables and figures."""
    from ..evaluation.surfaces import Measure, run
    from ..paper.published import PAPER

    name, device = "volumes" if settings.get("volume") else "surfaces", session.device()
    folder = session.folder(name)
    options = {} if device == "cpu" else {"device": device}
    measure = Measure(
        seed=session.seed,
        figures=folder / "figures" if figures else None,
        options=options,
        **settings,
    )
    result = run(shapes, measure, jobs, PAPER).write(folder, name)
    result.tell(session)
    session.finish(f"measured {len(result.shapes)} shapes, {', '.join(result.methods)},")
