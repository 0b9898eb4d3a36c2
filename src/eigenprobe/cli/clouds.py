"""Commands on shapes and point clouds: ``decompose`` one, ``encode`` many, ``cache`` their oracles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError
from .session import Session

if TYPE_CHECKING:
    from ..basis import Basis

Method = Literal["direct", "network", "pretrained"]
Kind = Literal["adaptive", "symmetric", "row"]
BATCH = 64  # shapes that go through the model together
LARGEST = 20_000_000  # points decomposed at once: some 100 GB at fifty vectors


def decompose(
    shape: Path,
    *,
    k: int = 50,
    method: Method = "direct",
    smoother: Kind = "adaptive",
    samples: int | None = None,
    volume: bool = False,
    steps: int | None = None,
    model: str = "surface",
    refine: int = 0,
    report: bool = True,
    session: Session,
) -> None:
    """Decompose one shape or point cloud: basis vectors, eigenvalues, mass, and a report to look at.

    Examples:
      eigenprobe decompose bunny.obj
      eigenprobe decompose scan.ply -k 100 --samples 20000 --out scan
      eigenprobe decompose solid.off --volume --samples 4000
      eigenprobe decompose cloud.xyz --method pretrained --refine 1

    Args:
        shape: a mesh (obj, off, ply, stl, glb) or a cloud (xyz, npy, npz, csv)
        k: how many basis vectors
        method: direct is the closed-form optimum, network trains on this shape, pretrained is one forward pass
        smoother: how probes are smoothed; adaptive suits uneven sampling best
        samples: use this many farthest points instead of all
        volume: fill a closed mesh and decompose its inside
        steps: training steps for --method network; chosen by its preset unless given
        model: weights for --method pretrained: a name in the package, a folder or a hub id
        refine: refinement sweeps after --method pretrained
        report: write report.html
    """
    from ..decomposition import decompose as solve

    points, faces = read_points(shape, samples, volume, session.seed)
    folder = session.folder(shape.stem)
    options: dict[str, Any] = {"model": model, "refine": refine} if method == "pretrained" else {"smoother": smoother}
    if method == "network" and steps is not None:
        options["steps"] = steps
    basis = solve(points, k, method, seed=session.seed, device=session.device(), **options)
    write_basis(folder, shape.name, basis, points, faces, report, session)
    session.finish(f"decomposed {shape.name}: {basis.n} points, {basis.k} vectors, {method},")


def write_basis(
    folder: Path, title: str, basis: Basis, points: Any, faces: Any, report: bool, session: Session
) -> None:
    """``basis.safetensors``, ``summary.json`` and, if wanted, ``report.html`` in one folder."""
    path = folder / "basis.safetensors"
    basis.save(path)
    session.wrote(path, "the basis: ep.Basis.load(path)")
    facts = {"source": title, "points": basis.n, "vectors": basis.k, "seconds": round(session.seconds, 3)}
    facts |= {"eigenvalues": basis.eigenvalues, **basis.info}
    session.write_json(folder / "summary.json", facts, "eigenvalues and facts")
    if report:
        from ..viz.report import write_report

        page = folder / "report.html"
        write_report(page, basis, points, faces=faces, title=title, facts=basis.info)
        session.wrote(page, "open in any browser")


def read_points(shape: Path, samples: int | None, volume: bool, seed: int, *, at_most: bool = False) -> tuple[Any, Any]:
    """The points of a file and, where they are exactly the vertices of a mesh, its faces.

    ``at_most`` takes fewer points than ``samples`` where the file has no more; otherwise a mesh is sampled denser.
    """
    from .. import geometry

    if samples is not None and samples < 1:
        raise InputError(f"--samples takes at least 1, got {samples}")
    read = geometry.load(shape)
    if volume:
        if read.faces is None:
            raise InputError(f"--volume needs a closed mesh, {shape} is a point cloud")
        return geometry.sample_volume(read, samples or 4000, seed), None
    if samples is None and len(read.vertices) > LARGEST:
        raise InputError(f"{shape} holds {len(read.vertices)} points, at most {LARGEST} fit: choose some by --samples")
    if samples is None or samples == len(read.vertices) or (at_most and samples > len(read.vertices)):
        return read.vertices, read.faces
    if samples > len(read.vertices) and read.faces is not None:
        # More points than vertices: dense surface samples first, thinned to an even spacing.
        dense = geometry.sample_surface(read, 4 * samples, seed)
        return dense[geometry.farthest_points(dense, samples, seed)], None
    return read.vertices[geometry.farthest_points(read.vertices, samples, seed)], None


def encode(
    shapes: list[Path],
    *,
    k: int = 50,
    model: str = "surface",
    samples: int = 1500,
    ritz: bool = True,
    refine: int = 0,
    session: Session,
) -> None:
    """Bases of many shapes in one pass each through a pretrained model.

    Examples:
      eigenprobe encode scans/ --out bases
      eigenprobe encode a.obj b.ply c.npy -k 20 --refine 1
      eigenprobe encode scans/ --model runs/pretrain/model

    Args:
        shapes: files, or folders of them
        k: how many basis vectors
        model: a name in the package, a folder or a hub id
        samples: at most this many farthest points of each shape; 0 takes all
        ritz: rotate within the predicted span to the best order
        refine: refinement sweeps
    """
    from ..geometry import find_shapes
    from ..pretrained.model import SpectralModel
    from ..progress import Progress

    files = list(dict.fromkeys(find_shapes(shapes)))
    folder = session.folder("encoded")
    network = SpectralModel.from_pretrained(model)
    options = {"k": k, "ritz": ritz, "refine": refine, "device": session.device()}
    failed: dict[Path, str] = {}
    with Progress("encoding", len(files)) as bar:
        for start in range(0, len(files), BATCH):
            for file, basis in _encode(network, files[start : start + BATCH], samples, options, session.seed, failed):
                path = _unused(folder / f"{file.stem}.safetensors", session)
                basis.save(path)
                session.wrote(path, f"{basis.n} points, {basis.k} vectors")
            bar.advance(len(files[start : start + BATCH]))
    if not session.written:
        first = next(iter(failed.values()))
        raise InputError(first if len(files) == 1 else f"none of {len(files)} shapes could be encoded; first: {first}")
    session.skipped(failed)
    session.finish(f"encoded {len(session.written)} of {len(files)} shapes")


def _encode(
    network: Any, files: list[Path], samples: int, options: dict[str, Any], seed: int, failed: dict[Path, str]
) -> list[tuple[Path, Basis]]:
    """A batch at once; one bad scan among thousands is noted in ``failed`` and does not end the run."""
    clouds: dict[Path, Any] = {}
    for file in files:
        try:
            clouds[file] = read_points(file, samples or None, False, seed, at_most=True)[0]
        except InputError as error:
            failed[file] = str(error)
    try:
        return list(zip(clouds, network.encode(list(clouds.values()), **options), strict=True)) if clouds else []
    except InputError:
        bases: list[tuple[Path, Basis]] = []
        for file, points in clouds.items():
            try:
                bases.append((file, network.encode(points, **options)))
            except InputError as error:
                failed[file] = str(error)
        return bases


def _unused(path: Path, session: Session) -> Path:
    """Two shapes of one name from different folders must not overwrite each other."""
    taken = {written for written, _ in session.written}
    number, chosen = 2, path
    while chosen in taken:
        chosen = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return chosen


def cache(shapes: list[Path], *, k: int = 50, jobs: int = -1, backend: str | None = None, session: Session) -> None:
    """Prepare the cotangent oracles of whole folders, once; a second run only does what is missing.

    Examples:
      eigenprobe cache meshes/
      eigenprobe cache meshes/ -k 100 --jobs 8 --out oracles

    Args:
        shapes: mesh files, or folders of them
        k: how many eigenvectors
        jobs: parallel workers, -1 for one per core
        backend: a joblib backend by name (loky, threading, dask, ray)
    """
    from ..geometry.cache import prepare_oracles

    summary = prepare_oracles(shapes, k=k, jobs=jobs, backend=backend, out=session.out)
    session.skipped(summary.failed)
    if not summary.made and not summary.kept:
        path, reason = next(iter(summary.failed.items()))
        raise InputError(f"none of {len(summary.failed)} shapes could be prepared; the first: {path}: {reason}")
    session.say(str(summary))
