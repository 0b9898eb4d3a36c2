"""Commands to look at things: ``demo`` on a built-in shape, ``view`` in the browser, ``export`` for
other programs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import InputError, extra
from ..host import progress
from ..host.files import atomic_path, reading_npz
from .session import SHARED, K, Session, Switch


def view(
    source: Path,
    *,
    compare: str | None = None,
    k: K = 50,
    host: str = "127.0.0.1",
    port: int = 8080,
    browser: Switch = True,
    session: Session = SHARED,
) -> None:
    """Turn a shape and its eigenfunctions in the browser, live, until interrupted.

    For example:

        eigenprobe view bunny.obj
        eigenprobe view bunny.obj --compare pretrained
        eigenprobe view bunny/basis.safetensors --compare learned/basis.safetensors

    Args:
        source: a saved basis, or a shape to decompose first
        compare: shown beside it: another basis or shape, or direct, network, pretrained, oracle for
            the same points
        k: how many vectors, for a shape
        host: address to listen on; by default only this machine can connect
        port: port to listen on; a taken one moves on to the next
        browser: open it in the browser of this machine
    """
    from ..viz.page import open_browser
    from ..viz.viewer import serve

    viewer = serve(source, compare=compare, k=k, host=host, port=port, block=False)
    progress.enable(False)  # waiting for the user is no work
    session.say(f"viewer at {viewer.url}, Ctrl-C ends it")
    if browser:
        open_browser(viewer.url)
    viewer.wait()
    session.say("viewer ended")


def export(
    basis: Path,
    target: Path,
    *,
    k: Annotated[int | None, Parameter(alias="-k")] = None,
    colour: int | None = None,
    force: bool = False,
    session: Session = SHARED,
) -> None:
    """Write a saved basis for other programs: eigenfunctions as scalars on the shape, or plain
    arrays.

    For example:

        eigenprobe export bunny/basis.safetensors bunny.vtk -k 10
        eigenprobe export bunny/basis.safetensors bunny.ply --colour 2
        eigenprobe export bunny/basis.safetensors bunny.csv -k 10
        eigenprobe export bunny/basis.safetensors bunny.mat
        eigenprobe export table/embedding.npz map.parquet

    Args:
        basis: basis.safetensors, as decompose and encode write it, or embedding.npz of embed
        target: a .ply, .vtk or .vtu file (points, faces, scalars), .csv (a line per point), or .npz
            or .mat (arrays; counted from 1 in Matlab); of a map .parquet or .csv (x, y, label,
            text), which other viewers open
        k: only the first so many vectors
        colour: colours of this vector, counted from 1, in a .ply file
        force: overwrite the target
    """
    session.refuse_existing(target, force, "another file")
    if basis.suffix == ".npz":
        session.wrote(target, f"{_write_map(basis, target)} rows")
        session.finish(f"exported {basis}")
        return
    from ..basis import Basis

    loaded = Basis.load(basis)
    loaded = loaded if k is None else loaded.truncate(k)
    if colour is None:
        loaded.save(target)
    elif target.suffix.lower() != ".ply" or not 1 <= colour <= loaded.k:
        asked = f"a vector from 1 to {loaded.k} and a target ending in .ply"
        raise InputError(f"--colour takes {asked}, got {colour}")
    else:
        from ..geometry.export import write_functions
        from ..viz.colours import diverging

        values = loaded.numpy().vectors[:, colour - 1]
        write_functions(target, loaded, (255 * diverging(values)).round())
    session.wrote(target, f"{loaded.n} points, {k or loaded.k} vectors")
    session.finish(f"exported {basis}")


def _write_map(source: Path, target: Path) -> int:
    """Where the rows of an embedded table are drawn, with their labels and texts; how many."""
    import pandas

    if target.suffix not in (".parquet", ".csv"):
        raise InputError(f"a map is written as .parquet or .csv, got {target.name!r}")
    with reading_npz(source) as arrays:
        places = arrays["layout" if "layout" in arrays else "embedding"]
        table = pandas.DataFrame(dict(zip("xyz", places.T, strict=False)))
        for name in ("labels", "texts"):
            if name in arrays:
                table[name[:-1]] = arrays[name]
    with atomic_path(target) as temporary:
        if target.suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            extra("pyarrow")
            table.to_parquet(temporary, index=False)
    return len(table)


def demo(*, k: K = 30, session: Session = SHARED) -> None:
    """Decompose a built-in shape in closed form, compare with the pretrained model, and leave a
    picture and a report behind.

    For example:

        eigenprobe demo
        eigenprobe demo --out tour -k 40

    Args:
        k: how many basis vectors
    """
    from ..basis import Basis
    from ..datasets import creature
    from ..io.shapes import save
    from ..viz.page import open_browser
    from .clouds import BASIS, decompose

    session.out = folder = session.folder("demo")
    save(creature(), shape := folder / "creature.obj")
    session.wrote(shape, "the shape: try 'eigenprobe decompose' on it")
    decompose([shape], k=k, compare="pretrained", force=True, session=session)
    Basis.load(folder / BASIS).plot(path=(picture := folder / "eigenfunctions.png"))
    page = (folder / "report.html").resolve().as_uri()
    session.say(f"{picture} shows the first eigenfunctions, now open {page} in a browser")
    open_browser(page)
