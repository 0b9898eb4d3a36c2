"""Commands on shapes and point clouds: ``decompose`` them, ``cache`` the oracles of meshes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..errors import InputError
from ..host import progress
from ..host.files import address, load_npy
from .session import Session

if TYPE_CHECKING:
    from ..basis import Basis

Method = Literal["direct", "network", "pretrained"]
Kind = Literal["adaptive", "symmetric", "row"]
Eigenvalues = Literal["rayleigh", "worst", "mean"]
USUAL = {"smoother": "adaptive", "model": "surface", "refine": 0, "boundary": "free", "metric": "euclidean"}
USUAL |= {"measure": 1.0, "eigenvalues": "rayleigh"}  # the others: None
TAKERS: dict[str, tuple[str, ...]] = {"steps": ("network",), **dict.fromkeys(("model", "refine"), ("pretrained",))}
TAKERS |= dict.fromkeys(("smoother", "neighbours"), ("direct", "network"))
BASIS, SUMMARY = "basis.safetensors", "summary.json"  # what is written first and last
BATCH = 64  # shapes that a device solves together
LARGEST = 20_000_000  # points decomposed at once: some 100 GB at fifty vectors


class Read(NamedTuple):
    """The points of a file, its faces where they are exactly the vertices, and which of its points they are."""

    points: Any
    faces: Any = None
    rows: Any = None


def decompose(
    shapes: list[Path],
    *,
    k: int = 50,
    method: Method = "direct",
    smoother: Kind = "adaptive",
    neighbours: str | None = None,
    boundary: Literal["free", "dirichlet"] = "free",
    bandwidth: float | None = None,
    dimension: float | None = None,
    metric: Literal["euclidean", "cosine", "scale-invariant"] = "euclidean",
    anisotropy: float | None = None,
    alpha: float = 1.0,
    potential: Path | None = None,
    probes: str | None = None,
    eigenvalues: Eigenvalues = "rayleigh",
    samples: int | None = None,
    columns: str | None = None,
    key: str | None = None,
    volume: bool = False,
    steps: int | None = None,
    model: str = "surface",
    refine: int = 0,
    report: bool = True,
    compare: str | None = None,
    force: bool = False,
    scheduler: str | None = None,
    session: Session,
) -> None:
    """Decompose shapes or point clouds: basis vectors, eigenvalues, mass, and a report to look at.

    Examples:
      eigenprobe decompose bunny.obj
      eigenprobe decompose scan.ply -k 100 --samples 20000 --out scan
      eigenprobe decompose solid.off --volume --samples 4000
      eigenprobe decompose cloud.xyz --method pretrained --refine 1
      eigenprobe decompose table.csv --columns x,y,z
      eigenprobe decompose arrays.npz --key positions
      eigenprobe decompose bunny.obj --smoother row --neighbours 10 --bandwidth 0.1 --eigenvalues worst
      eigenprobe decompose bunny.obj --probes wavelet
      eigenprobe decompose bunny.obj --compare oracle
      eigenprobe decompose scans/ more/a.obj --out bases
      eigenprobe decompose scans/ --out bases --scheduler processes

    Args:
        shapes: meshes (obj, off, ply, stl, glb, vtk, vtu), clouds (xyz, pts, csv, npy, npz, pcd, las, laz), or folders
            of them, sub-folders included; a stopped run goes on
        k: how many basis vectors
        method: direct is the closed-form optimum, network trains on this shape, pretrained is one forward pass
        smoother: how probes are smoothed; adaptive suits uneven sampling best
        neighbours: learned cuts short-cuts on surfaces (default), plain takes all of the nearest; or a number
        boundary: dirichlet asks for functions that vanish at the outermost points of the cloud
        bandwidth: sigma of the Gaussian weights, in units of the points; chosen from the data unless given
        dimension: of the manifold; estimated unless given
        metric: cosine compares directions (tables of embeddings); scale-invariant measures a surface by its
            curvature, so that eigenvalues do not depend on sizes
        anisotropy: lengths along the strongest curvature of a surface count 1 plus this many times
        alpha: of diffusion maps; 1 measures area, 0.5 the density of the samples, 0 its square
        potential: npy file with a number per point of the shape, added to the Laplacian
        probes: npy file (n, m) of functions to reconstruct best, or a family: heat, resolvent, polynomial, wavelet,
            hadamard, features
        eigenvalues: quotients of the smoother, or one over the mean or worst error of the vectors before
        samples: use this many points instead of all: the farthest, or drawn on the surface where vertices are fewer
        columns: the coordinates of a text or npy cloud, by name or by number from 0, as in x,y,z or 0,1,2
        key: the array of an npz file that holds the points, where it has several
        volume: fill a closed mesh and decompose its inside
        steps: training steps for --method network; chosen by its preset unless given
        model: weights for --method pretrained: a name in the package, a folder or a hub id
        refine: refinement sweeps after --method pretrained
        report: write report.html
        compare: shown beside it in the report: direct, network, pretrained or oracle for the same points, or a file
        force: overwrite what an earlier run has written
        scheduler: address of a Dask scheduler, or processes: files go to its workers
    """
    from ..decomposition import decompose as solve
    from ..viz.report import METHODS

    offered: Any = int(neighbours) if neighbours and neighbours.isdecimal() else neighbours
    asked = {"smoother": smoother, "steps": steps, "model": model, "refine": refine, "neighbours": offered}
    asked |= {"boundary": boundary, "metric": metric, "anisotropy": anisotropy, "measure": alpha}
    options = _options(method, asked | {"eigenvalues": eigenvalues, "bandwidth": bandwidth, "dimension": dimension})
    given: dict[str, Any] = {} if potential is None else {"potential": load_npy(potential)}
    if probes is not None:
        given["probes"] = load_npy(Path(probes)) if Path(probes).suffix == ".npy" else probes
    if compare is not None and not (compare in METHODS or Path(compare).is_file()):
        raise InputError(f"--compare takes {', '.join(METHODS)} or a file, got {compare!r}")
    named = places(shapes)
    several = [*named] != shapes[:1]
    root = session.folder("decomposed") if several else Path()
    files = [file for file, name in named.items() if force or not several or not finished(root / name)]
    failed: dict[Path, str] = {}
    ahead: dict[Path, tuple[Read, Basis | None]] = {}
    read = partial(read_points, samples=samples, volume=volume, seed=session.seed, columns=columns, key=key)
    settings = {"k": k, "method": method, "seed": session.seed, "device": session.device(), **options}
    for number, file in enumerate(progress.track(files, "decomposing") if several else files):
        if several and number % BATCH == 0:
            ahead = _at_once(files[number : number + BATCH], read, settings | given)
        try:
            began = session.running() if several else 0.0
            progress.stage(f"reading {file.name}")
            cloud, basis = ahead.pop(file) if file in ahead else (read(file), None)
            if compare == "oracle" and cloud.faces is None:
                raise InputError(f"--compare oracle needs a mesh with all of its vertices, {file.name} gave a cloud")
            folder = root / named[file] if several else session.folder(file.stem)
            session.refuse_existing(folder / BASIS, force or several)
            for name, array in given.items():  # of all points of the file, or of those chosen
                whole = cloud.rows is None or isinstance(array, str) or len(array) == len(cloud.rows)
                settings[name] = array if whole else array[cloud.rows]
            progress.stage(f"decomposing {file.name}: {len(cloud.points)} points")
            basis = solve(cloud.points, **settings) if basis is None else basis
            basis = replace(basis, faces=cloud.faces, rows=cloud.rows, info={**basis.info, "source": file.name})
            write_basis(folder, basis, report, session, began, compare)
        except InputError as error:
            if not several:
                raise
            failed[file] = str(error)
            continue
        d = cloud.points.shape[1]
        told = f"{file.name}: {basis.n} points{'' if d == 3 else f' in {d} dimensions'}, {basis.k} vectors, {method}"
        session.say(f"decomposed {told}") if several else session.finish(f"decomposed {told},")
    if several:
        session.finish_all("decomposed", len(named), len(named) - len(files), failed)


def _at_once(files: list[Path], read: Callable[[Path], Read], settings: Any) -> dict[Path, tuple[Read, Basis | None]]:
    """The small ones of the files on a device, with the bases of those that it solves together."""
    from ..decomposition import together

    clouds: dict[Path, Read] = {}
    for file in files if together.pays(settings["device"]) else ():
        with suppress(InputError):  # said when its turn comes
            if len((cloud := read(file)).points) <= together.LARGEST:
                clouds[file] = cloud
    usual = {"neighbours": None, "dimension": None, "tol": 1e-6}
    found = together.solved_at_once([cloud.points for cloud in clouds.values()], usual | settings)
    return {file: (cloud, found.get(i)) for i, (file, cloud) in enumerate(clouds.items())}


def _options(method: Method, asked: dict[str, Any]) -> dict[str, Any]:
    """What was asked for beyond the usual; an option that the method would ignore is an error."""
    asked = {name: value for name, value in asked.items() if value != USUAL.get(name)}
    takers = TAKERS | ({"neighbours": ("direct",)} if isinstance(asked.get("neighbours"), str) else {})
    for name in asked:
        if method not in (known := takers.get(name, (method,))):
            raise InputError(f"--{name} is for --method {' or '.join(known)}, not for {method}")
        if name in ("steps", "bandwidth", "dimension") and not asked[name] > 0:
            raise InputError(f"--{name} takes a number above 0, got {asked[name]}")
    return asked


def write_basis(
    folder: Path, basis: Basis, report: bool, session: Session, began: float, compare: str | None = None
) -> None:
    """``basis.safetensors``, if wanted ``report.html``, and ``summary.json`` with the time of it all in one folder."""
    title, told = basis.info["source"], dict(basis.info)
    basis.save(path := folder / BASIS)
    session.wrote(path, "the basis: ep.Basis.load(path)")
    other = None
    if compare is not None:
        from ..evaluation import compare as measured
        from ..viz.report import second_basis

        progress.stage(f"comparing with {compare}")
        other, name = second_basis(compare, basis, basis.points, basis.faces)
        other = replace(other, info={**other.info, "method": name})
        if other.n == basis.n:
            told[f"|cosine| with {name} up to 10"] = measured(basis, other).cosine(min(10, basis.k, other.k))
            session.say(f"agrees with {name} to |cosine| {[*told.values()][-1]:.3f} up to k=10")
    if report:
        progress.stage("writing the report")
        basis.report(page := folder / "report.html", title=title, compare=other, facts=told)
        session.wrote(page, "open in any browser")
    facts = {"source": title, "points": basis.n, "vectors": basis.k, "eigenvalues": basis.eigenvalues, **told}
    facts |= {"seconds": round(session.stopped() - began, 3), "seconds_solving": basis.info["seconds"]}
    session.write_json(folder / SUMMARY, facts, "eigenvalues and facts")


def read_points(
    shape: Path,
    samples: int | None,
    volume: bool,
    seed: int,
    *,
    columns: str | None = None,
    key: str | None = None,
    at_most: bool = False,
) -> Read:
    """What a command works on, of one file.

    ``at_most`` takes fewer points than ``samples`` where the file has no more; otherwise a mesh is sampled denser.
    """
    from .. import geometry

    if samples is not None and samples < 1:
        raise InputError(f"--samples takes at least 1, got {samples}")
    read = geometry.load(shape, columns=columns, key=key)
    if volume:
        if read.faces is None:
            raise InputError(f"--volume needs a closed mesh, {shape} is a point cloud")
        return Read(geometry.sample_volume(read, samples or 4000, seed))
    if samples is None and len(read.vertices) > LARGEST:
        raise InputError(f"{shape} holds {len(read.vertices)} points, at most {LARGEST} fit: choose some by --samples")
    if samples is None or samples == len(read.vertices) or (at_most and samples > len(read.vertices)):
        return Read(read.vertices, read.faces)
    if samples > len(read.vertices) and read.faces is not None:
        # More points than vertices: dense surface samples first, thinned to an even spacing.
        dense = geometry.sample_surface(read, 4 * samples, seed)
        return Read(dense[geometry.farthest_points(dense, samples, seed)])
    rows = geometry.farthest_points(read.vertices, samples, seed)
    return Read(read.vertices[rows], rows=rows)


def finished(place: Path) -> bool:
    """Whether a run has written this file, or all of its files into this folder."""
    return place.is_file() or all((place / name).exists() for name in (BASIS, SUMMARY))


def places(shapes: list[Path]) -> dict[Path, Path]:
    """All files of a command and where their output belongs: as they lie in the folder that was given, without suffix.

    Files that differ in that alone keep it, and a name that was given before gets a number: a run that goes on finds
    what it has done, whatever could not be read.
    """
    from ..readers.shapes import find_shapes

    found: dict[Path, Path] = {}
    for given in shapes:
        folder = given.is_dir() or not given.suffix or address(given)
        for file in find_shapes([given], below=True) if folder else [given]:
            found.setdefault(file, Path(file.name) if file == given else file.relative_to(given))
    alike = Counter(name.with_suffix("") for name in {*found.values()})
    taken: Counter[Path] = Counter()
    for file, name in found.items():
        name = name if alike[name.with_suffix("")] > 1 else name.with_suffix("")
        taken[name] += 1
        found[file] = name if taken[name] == 1 else name.with_name(f"{name.name}-{taken[name]}")
    return found
