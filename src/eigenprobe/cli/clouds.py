"""The command on shapes and point clouds: ``decompose`` them, one by one or a folder of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from cyclopts import Parameter

from ..errors import InputError, heard_warnings
from ..host import progress
from ..host.files import Facts, address, load_npy
from .cluster import spread
from .session import SHARED, K, Session, Switch, explanation

if TYPE_CHECKING:
    from ..basis import Basis
    from ..io.shapes import Shape

ENDING = ".safetensors"
BASIS, SUMMARY = f"basis{ENDING}", "summary.json"  # what is written first and last


class Options(TypedDict, total=False):
    """Options of the library's `decompose`, as far as they can be typed."""

    smoother: Literal["adaptive", "symmetric", "row"]
    """adaptive (unless given) measures area whatever the sampling; row is the paper's"""
    metric: Literal["euclidean", "cosine", "scale-invariant"]
    """cosine compares directions (tables of embeddings); scale-invariant measures a surface by its
    curvature, so that eigenvalues do not depend on sizes"""
    neighbours: Annotated[
        Literal["learned", "plain"] | int, Parameter(name=("--neighbours", "--neighbors"))
    ]
    """which are real: learned (unless given) cuts edges that are short-cuts through thin parts and
    between touching ones; plain: all of the nearest; a number: that many, uncut"""
    bandwidth: float
    """sigma of the Gaussian weights, in units of the points; chosen from the data unless given"""
    dimension: float
    """of the manifold; estimated unless given"""
    tol: float
    """residual |A q - mu q| that direct guarantees; 1e-6 unless given"""
    potential: str
    """v (n,), a .npy file: the spectrum of L + diag(v)"""
    boundary: str
    """dirichlet: functions vanish at the boundary of the cloud, or where a mask says, a .npy file;
    without it the boundary is free"""
    anisotropy: float | str
    """a field (n, d), a .npy file, along which lengths count 1 + |field| times; or the strength
    along the direction of strongest curvature"""
    measure: Annotated[float | str, Parameter(name=("--alpha", "--measure"))]
    """alpha of diffusion maps: 1 (unless given) measures area, 1/2 the density of the samples, 0
    its square; or weights (n,), a .npy file"""
    probes: str
    """a family (heat, resolvent, polynomial, wavelet, hadamard, features) or functions (n, m), a
    .npy file: the basis that best reconstructs them"""
    eigenvalues: Literal["rayleigh", "mean", "worst"]
    """Rayleigh quotients (unless given), or the paper's, from errors of reconstruction"""
    resolution: Literal["auto", "all"] | int
    """of the sample that the operator is made on: auto (unless given) looks at the sampling, all
    takes every point as it is, a number about so many"""
    parts: Literal["largest", "all"]
    """the largest connected part alone, or all of them; unless given, small ones are left out"""
    steps: int
    """training steps for --method network; chosen by its preset unless given"""
    model: str
    """weights for --method pretrained: a name in the package, a folder or a hub id"""
    refine: int
    """refinement sweeps after --method pretrained"""


def decompose(
    shapes: list[Path],
    *,
    k: K = 50,
    method: Annotated[Literal["direct", "network", "pretrained"], Parameter(alias="-m")] = "direct",
    samples: int | None = None,
    columns: str | None = None,
    key: str | None = None,
    volume: bool = False,
    report: Switch = True,
    compare: str | None = None,
    force: bool = False,
    scheduler: str | None = None,
    session: Session = SHARED,
    **options: Unpack[Options],
) -> None:
    """Decompose shapes or point clouds: basis vectors, eigenvalues, mass, and a report to look at.

    For example:

        eigenprobe decompose bunny.obj
        eigenprobe decompose scan.ply -k 100 --samples 20000 --out scan
        eigenprobe decompose solid.off --volume --samples 4000
        eigenprobe decompose cloud.xyz --method pretrained --refine 1
        eigenprobe decompose table.csv --columns x,y,z
        eigenprobe decompose arrays.npz --key positions
        eigenprobe decompose bunny.obj --probes wavelet
        eigenprobe decompose bunny.obj --compare oracle
        eigenprobe decompose scans/ more/a.obj --out bases
        eigenprobe decompose scans/ --out bases --scheduler processes

    Args:
        shapes: meshes (obj, off, ply, stl, glb, vtk, vtu), clouds (xyz, pts, csv, npy, npz, pcd,
            las, laz), or folders of them, sub-folders included; a stopped run goes on
        k: how many basis vectors, the constant one included
        method: direct is the closed form, network is trained on this cloud, pretrained predicts
        samples: use this many points instead of all: the farthest, or drawn on the surface where
            vertices are fewer; 0 takes the vertices even where they do not cover the faces
        columns: the coordinates of a text or npy cloud, by name or by number from 0, as in x,y,z or
            0,1,2
        key: the array of an npz file that holds the points, where it has several
        volume: fill a closed mesh and decompose its inside
        report: write report.html
        compare: shown beside it in the report: direct, network, pretrained or oracle for the same
            points, or a file
        force: overwrite what an earlier run has written
        scheduler: address of a Dask scheduler, or processes: files go to its workers
    """
    from ..viz.report import METHODS as known

    if compare is not None and not (compare in known or Path(compare).is_file()):
        raise InputError(f"--compare takes {', '.join(known)} or a file, got {compare!r}")
    choice: Facts = {"samples": samples, "columns": columns, "key": key, "volume": volume}
    settings: Facts = {"k": k, "method": method, "seed": session.seed, **options}
    for name, value in options.items():
        if str(value).endswith(".npy"):
            settings[name] = load_npy(Path(str(value)))

    def solve(cloud: Shape) -> Basis:
        from ..decomposition import decompose as library

        if compare == "oracle" and cloud.faces is None:
            raise InputError(
                f"--compare oracle needs all vertices of a mesh, {Session.source} gave a cloud"
            )
        own = dict(settings)
        for name, value in settings.items():  # of a row per point of the file, those of the points
            if hasattr(value, "shape") and cloud.rows is not None and len(value) != cloud.n:
                own[name] = value[cloud.rows]
        return library(cloud.vertices, device=session.device(), **own)

    def work(file: Path, folder: Path, session: Session) -> tuple[Basis, Path]:
        basis = solved(file, solve, session.seed, **choice)
        seconds = write_basis(folder, basis, report, session, compare)
        d = 0 if basis.points is None else basis.points.shape[1]
        size = f"{basis.n} points{'' if d == 3 else f' in {d} dimensions'}, {basis.k} vectors"
        session.finish(f"decomposed {file.name}: {size}, {method},", seconds)
        return basis, folder / ("report.html" if report else BASIS)

    named = places(shapes, session.out)
    alone = [*named] == shapes[:1]
    folder = session.folder(shapes[0].stem if alone else "decomposed")
    targets = {file: folder / ("" if alone else name) for file, name in named.items()}
    work_all(work, targets, folder, session, force, scheduler, alone)


def solved(file: Path, solve: Callable[[Shape], Basis], seed: int, **choice: Any) -> Basis:
    """The basis of a file, which knows its faces and rows and what was said of it; ``choice`` of
    `read_points`.
    """
    progress.stage(f"reading {file.name}")
    Session.source = file.name
    with heard_warnings() as told:
        cloud = read_points(file, seed=seed, **choice)
    progress.stage(f"decomposing {file.name}: {cloud.n} points")
    basis = solve(cloud)
    told += basis.info.get("warnings", ())
    info = {**basis.info, "source": file.name, "warnings": told}
    return replace(basis, faces=cloud.faces, rows=cloud.rows, info=info)


def work_all(
    work: Callable[[Path, Path, Session], tuple[Basis, Path]],
    targets: Mapping[Path, Path],
    folder: Path,
    session: Session,
    force: bool,
    scheduler: str | None,
    alone: bool,
) -> None:
    """Do one file ``alone``, or every file that has no target yet, here or as a task of a worker,
    with an index of the folder; an error where one failed. ``work`` returns the basis of a file and
    what to open.

    One bad file among thousands does not end the run.
    """
    if alone:
        ((file, target),) = targets.items()
        session.refuse_existing(written(target)[0], force)
        work(file, target, session)
        return
    from ..viz.page import write_index

    session.same_settings(folder, force)
    name = session.command
    files = [file for file, target in targets.items() if force or not finished(target, file)]
    rows: dict[str, Facts] = {}
    part = replace(session, quiet=session.quiet or scheduler is not None)
    tasks = [(work, file, targets[file], folder, part) for file in files]
    failed: dict[Path, str] = {}
    kept = done = len(targets) - len(files)
    try:
        for number, result in spread(_work_one, tasks, name, scheduler if tasks else None):
            if isinstance(result, str):
                failed[files[number]] = result
                continue
            done += 1
            session.written.extend(result[0])
            rows[str(files[number])] = result[1]
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.add_note(f"{done} of {len(targets)} done; run again to go on")
        raise
    finally:
        title = f"{name}d in {folder.name}".capitalize()
        session.written[:0] = write_index(folder, title, rows, failed)
    session.skipped(failed)
    there = f", {kept} already there (--force does them anew)," if kept else ""
    session.finish(f"{name}d {done - kept} of {len(targets)} shapes{there}")
    if failed:
        first = next(iter(failed.values()))
        raise InputError(f"{len(failed)} of {len(targets)} shapes were not {name}d; first: {first}")


def _work_one(work: Any, file: Path, target: Path, folder: Path, session: Session) -> Any:
    """What was written, and the row of the index; a text: why not."""
    from ..viz.page import row_of

    session = replace(session)
    session.part = True
    try:
        basis, link = work(file, target, session)
    except Exception as error:
        line, code = explanation(error)
        if code == 1 and session.debug:
            raise
        return line
    return session.written, row_of(folder, file, link, basis)


def write_basis(
    folder: Path, basis: Basis, report: bool, session: Session, compare: str | None
) -> float:
    """``basis.safetensors``, if wanted ``report.html``, and ``summary.json`` with the time of it
    all in one folder, which is returned.
    """
    details = {name: value for name, value in basis.info.items() if name != "rows"}
    basis.save(path := folder / BASIS)
    session.wrote(path, "the basis: ep.Basis.load(path)")
    facts: Facts = {"points": basis.n, "vectors": basis.k, "eigenvalues": basis.eigenvalues}
    progress.stage("estimating its error")
    with suppress(InputError):  # where half of the points have no such operator
        facts["uncertainty"] = vars(basis.uncertainty)
        session.say(f"estimated from half of the points: {basis.uncertainty}")
    other = None
    if compare is not None:
        from ..evaluation import compare as measured
        from ..viz.report import open_basis

        progress.stage(f"comparing with {compare}")
        other, name = open_basis(compare, basis.k, basis)
        other = replace(other, info={**other.info, "method": name})
        if other.n == basis.n:
            agreed = measured(basis, other).cosine(min(10, basis.k, other.k))
            details[f"|cosine| with {name} up to 10"] = agreed
            session.say(f"agrees with {name} to |cosine| {agreed:.3f} up to k=10")
    if report:
        progress.stage("writing the report")
        basis.report(
            page := folder / "report.html", title=details["source"], compare=other, facts=details
        )
        session.wrote(page, "open in any browser")
    facts |= details | {"seconds_solving": basis.info["seconds"]}
    facts["seconds"] = round(session.seconds, 3)
    session.write_json(folder / SUMMARY, facts, "eigenvalues and facts")
    return facts["seconds"]


def read_points(
    shape: Path,
    samples: int | None,
    seed: int,
    *,
    volume: bool = False,
    columns: str | None = None,
    key: str | None = None,
    at_most: bool = False,
) -> Shape:
    """What a command works on, of one file, with the faces where they are exactly the vertices.

    ``at_most`` takes fewer points than ``samples`` where the file has no more; otherwise a mesh is
    sampled denser.
    """
    from .. import geometry
    from ..geometry.draws import covered, spread_surface

    if samples is not None and samples < 0:
        raise InputError(f"--samples takes at least 1, or 0 for all vertices, got {samples}")
    read = geometry.load(shape, columns=columns, key=key)
    if volume:
        if read.faces is None:
            raise InputError(f"--volume needs a closed mesh, {shape} is a point cloud")
        return replace(
            read,
            vertices=geometry.sample_volume(read, samples or 4000, seed),
            faces=None,
            rows=None,
        )
    read = covered(read, seed) if samples is None else read
    if not samples or samples == read.n or (at_most and samples > read.n):
        return read
    if samples > read.n and read.faces is not None:
        return replace(read, vertices=spread_surface(read, samples, seed), faces=None, rows=None)
    rows = geometry.farthest_points(read.vertices, samples, seed)
    known = rows if read.rows is None else read.rows[rows]
    return replace(read, vertices=read.vertices[rows], faces=None, rows=known)


def written(target: Path) -> list[Path]:
    """The files that a basis is: this one, or those in this folder."""
    return [target] if target.suffix == ENDING else [target / BASIS, target / SUMMARY]


def finished(place: Path, source: Path) -> bool:
    """Whether a run has written this file, or all of its files into this folder, since its source
    was last changed.
    """
    with suppress(FileNotFoundError):
        when = min(path.stat().st_mtime_ns for path in written(place))
        return not source.exists() or source.stat().st_mtime_ns <= when
    return False


def places(shapes: list[Path], out: Path | None) -> dict[Path, Path]:
    """All files of a command and where their output belongs: as they lie below the folder that all
    have in common, without suffix where they do not differ in that alone. What a run has written
    below ``out`` is not read.
    """
    from ..io.shapes import find_shapes

    own = (out or Path("out")).resolve()
    found: list[Path] = []
    above: list[str] = []
    for given in shapes:
        file = given.suffix and not given.is_dir() and not address(given)
        inside = [given] if file else find_shapes([given], below=True)
        if own not in (given.resolve(), *given.resolve().parents):
            inside = [each for each in inside if own not in each.resolve().parents]
        found += inside
        above.append(os.path.abspath(given.parent if given in inside else given))
    common = os.path.commonpath(above)
    names = {file: Path(os.path.relpath(file, common)) for file in found}
    alike = Counter(name.with_suffix("") for name in names.values())
    return {
        file: name if alike[name.with_suffix("")] > 1 else name.with_suffix("")
        for file, name in names.items()
    }
