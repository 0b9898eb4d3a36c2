"""Commands on tables of embeddings: ``embed`` one, and ``features`` to make one from a folder of
images.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError, near_path, warn
from ..host import progress
from ..host.files import Facts, write_npz
from .session import SHARED, K, Session, Switch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..io.rows import Rows
    from ..io.tables import Table
    from ..manifold.eigenmaps import Eigenmaps

Source = tuple[Path, str | None, str | None]  # a table, the names of its labels and of its array
TABULAR = (".csv", ".tsv", ".parquet")  # tables whose columns have names
BESIDE = (".npy", ".txt", ".csv", ".tsv")  # files of labels and texts
BLOCK = 1 << 25  # numbers in a block of rows
LEAST_BLOCKS = 8  # of a small table


def embed(
    table: Path,
    *,
    k: K = 8,
    solver: Literal["direct", "network"] = "direct",
    coordinates: Literal["auto", "map", "sphere", "vectors"] = "auto",
    labels: str | None = None,
    text: str | None = None,
    images: str | None = None,
    columns: str | None = None,
    drop: str | None = None,
    missing: Literal["error", "drop"] = "error",
    key: str | None = None,
    new: Path | None = None,
    metric: str = "auto",
    neighbors: int | None = None,
    sample: int | None = None,
    layout: Switch = True,
    map_dimensions: Literal[2, 3] = 2,
    report: Switch = True,
    force: bool = False,
    scheduler: str | None = None,
    session: Session = SHARED,
) -> None:
    """Embed a table of features: one row per sample, spectral coordinates out, and a map to
    explore.

    For example:

        eigenprobe embed features.npz --labels labels
        eigenprobe embed cells.csv --labels celltype --text barcode -k 5 --metric euclidean
        eigenprobe embed train.npy --labels classes.npy --new test.npy --solver network
        eigenprobe embed photos.csv --text caption --images file
        eigenprobe embed cells.h5ad --labels cell_type --key obsm/X_pca
        eigenprobe embed s3://bucket/rows.parquet --scheduler tcp://10.0.0.1:8786 --out placed

    Args:
        table: npy, npz, csv, parquet, HDF5 or h5ad: a path, or an address that fsspec reads
        k: how many coordinates
        solver: direct is the closed form, network learns a function for new rows
        coordinates: those of a map in k dimensions, unless another kind is named; vectors are the
            eigenvectors, which follow a curve or a surface; sphere projects them on one (so does
            --no-layout)
        labels: the column (csv, parquet, h5ad) or array (npz) that holds labels, or a file with one
            per row (npy, text); used for colours only
        text: the column or array that is shown on hover and searched in the report, or a file with
            a line per row
        images: pictures of the rows, shown on hover and in place of points where one zooms in: a
            folder with one per row in the order of their names, or the column of file names
        columns: the columns that are features, by name or by number from 0, as in a,b,c; all
            numbers unless given
        drop: columns that are no features
        missing: drop leaves out rows with missing values; by default the first one is named and
            nothing is done
        key: the array of an npz, HDF5 or h5ad file to embed, where it has several: layers/counts,
            obsm/X_scvi
        new: a second table, placed in the coordinates fitted on the first
        metric: auto is cosine from 64 columns on, Euclidean below; or cosine, euclidean, a name
            that pynndescent knows
        neighbors: size of the neighbourhood graph
        sample: fit this many random rows and place the others among them; without it as many rows
            are fitted as half of the memory holds, two million at most (a million of 128 columns
            takes a few minutes)
        layout: a map to look at, made from the graph; --no-layout saves its time
        map_dimensions: 3 for a map to turn in space
        report: write report.html
        force: overwrite what an earlier run has written
        scheduler: address of a Dask scheduler, or processes: rows are fitted here, workers place
            blocks of all rows
    """
    for name, given in (("labels", labels), ("text", text)):
        if given and Path(given).suffix in BESIDE and not (path := Path(given)).is_file():
            raise InputError(f"--{name}: no such file: {given}{near_path(path)}")
    import numpy as np

    from ..io.tables import read_table
    from ..manifold.eigenmaps import Eigenmaps
    from ..viz.scatter import image_files, write_scatter

    lists = {"columns": columns, "drop": drop}
    folder = session.folder(table.stem)
    session.refuse_existing(path := folder / "embedding.npz", force)
    if not layout and coordinates == "auto":
        coordinates = "sphere"
    options: Facts = {"solver": solver, "metric": metric, "coordinates": coordinates}
    options |= {"map_dimensions": map_dimensions, "random_state": session.seed}
    options |= {"n_neighbors": neighbors, "max_samples": sample, "device": session.device()}
    estimator = Eigenmaps(k, **{name: each for name, each in options.items() if each is not None})
    progress.stage(f"reading {table.name}")
    pictures: Any = image_files(Path(images)) if images and Path(images).is_dir() else None
    chosen: Any = {name: given.split(",") for name, given in lists.items() if given}
    beside = [name for name in (text, images if pictures is None else None) if name]
    rows = None
    if scheduler is None or labels or beside:
        whole = read_table(table, labels, key, beside=beside, **chosen)
        if pictures and len(pictures) != (n := whole.features.shape[0]):
            raise InputError(f"a row has one of the images: expected {n}, got {len(pictures)}")
        rows, kept = _complete(table, whole, missing)
        if pictures:
            pictures = np.asarray(pictures, object)[kept]
        elif images is not None:
            pictures = [table.parent / str(name) for name in rows.beside[images]]
    fresh = None
    if new is not None:
        if rows is not None and table.suffix.lower() in TABULAR:
            chosen = {"columns": rows.names}
        fresh = _complete(new, read_table(new, key=key, **chosen), missing)[0].features
    if scheduler is not None or rows is None:
        arrays = _spread_rows((table, labels, key), folder, layout, estimator, str(scheduler))
    else:
        progress.stage(f"embedding {rows.features.shape[0]} rows")
        estimator.fit(rows.features)
        names = ("embedding", "eigenvalues", "mass")
        arrays = {name: getattr(estimator, f"{name}_") for name in names}
        if layout:
            progress.stage(f"laying out {rows.features.shape[0]} rows")
            every = estimator.basis_.n == len(estimator.embedding_)
            arrays["layout"] = estimator.layout_ if every else estimator.place(rows.features)
    if fresh is not None:
        progress.stage(f"placing {fresh.shape[0]} new rows")
        arrays["new"] = estimator.transform(fresh)
        if layout:
            arrays["new_layout"] = estimator.place(fresh)
    drawn: Any = {"title": table.name, "images": pictures}
    if rows is not None and rows.labels is not None:
        arrays["labels"] = rows.labels.astype(str) if rows.labels.dtype == object else rows.labels
        drawn["labels"] = rows.named
    if rows is not None and text is not None:
        arrays["texts"] = rows.beside[text].astype(str)
    write_npz(path, arrays)
    session.wrote(path, f"arrays {', '.join(arrays)}")
    if report:
        progress.stage("writing the report")
        shown = ("new", "layout", "new_layout", "eigenvalues", "texts")
        drawn |= {name: arrays.get(name) for name in shown}
        write_scatter(page := folder / "report.html", arrays["embedding"], **drawn)
        session.wrote(page, "open in any browser")
    count = len(arrays["embedding"])
    facts: Facts = {"rows": count, "coordinates": k, "eigenvalues": arrays["eigenvalues"]}
    facts["seconds"] = seconds = round(session.seconds, 3)
    session.write_json(folder / "summary.json", facts, "eigenvalues and facts")
    session.finish(f"embedded {table.name}: {count} rows, {k} coordinates, {solver},", seconds)


def _complete(path: Path, table: Table, missing: str) -> tuple[Table, Any]:
    """The rows without missing values, and which of all these are."""
    import numpy as np
    from scipy.sparse import issparse

    features = table.features
    if issparse(features) or features.dtype.kind != "f":
        return table, slice(None)
    if (whole := np.isfinite(features).all(1)).all():
        return table, slice(None)
    n, kept = len(features), np.flatnonzero(whole)
    if missing == "error":
        row = int(np.argmin(whole))
        column = table.names[int(np.argmin(np.isfinite(features[row])))]
        line = f" (line {row + 2})" if path.suffix.lower() in (".csv", ".tsv") else ""
        count = f", and {n - len(kept) - 1} more rows" if n > len(kept) + 1 else ""
        where = f"{path}: row {row}{line} has no number in column {column}{count}"
        raise InputError(f"{where}; --missing drop leaves such rows out")
    warn(f"{path.name}: {n - len(kept)} of {n} rows have missing values and are left out")
    labels = None if table.labels is None else table.labels[kept]
    beside = {name: values[kept] for name, values in table.beside.items() if name}
    return table._replace(features=features[kept], labels=labels, beside=beside), kept


def _spread_rows(
    source: Source, folder: Path, layout: bool, estimator: Eigenmaps, scheduler: str
) -> dict[str, NDArray[Any]]:
    """Fit here, and place all rows on a cluster, whose workers read the model below ``folder``."""
    import numpy as np

    from ..io.rows import checked, open_rows
    from ..manifold.sources import rows_to_fit
    from .cluster import spread

    rows = open_rows(*source)
    n, width = rows.shape
    count = min(n, rows_to_fit(estimator, width))
    drawn = np.random.default_rng(estimator.random_state)
    chosen = np.sort(drawn.choice(n, count, replace=False, shuffle=False))
    progress.stage(f"embedding {count} of {n} rows (--sample fits fewer)")
    estimator.fit(checked(rows.take(chosen), chosen).float())
    if layout:
        estimator.layout_  # noqa: B018 (made now, and saved with the rest)
    size = max(1, min(BLOCK // width, -(-n // LEAST_BLOCKS)))
    with TemporaryDirectory(dir=folder) as fitted:
        estimator.save(fitted)
        starts = range(0, n, size)
        tasks = [((source, fitted), layout, at, min(at + size, n)) for at in starts]
        placed = dict(spread(_place_rows, tasks, "placing rows", scheduler))
    lost = [result for result in placed.values() if isinstance(result, str)]
    if lost:
        raise InputError(f"{len(lost)} of {len(tasks)} blocks of rows were not placed: {lost[0]}")
    values = np.concatenate([placed[number] for number in range(len(tasks))])
    k = estimator.n_components
    arrays = {"embedding": values[:, :k], "eigenvalues": estimator.eigenvalues_}
    return arrays | ({"layout": values[:, k:]} if layout else {})


@lru_cache(maxsize=1)
def _opened(source: Source, fitted: str) -> tuple[Rows, Eigenmaps]:
    """Once per worker: a csv file is read whole, and a model of a million rows has 1.5 GB."""
    from ..io.rows import open_rows
    from ..manifold.eigenmaps import Eigenmaps

    return open_rows(*source), Eigenmaps.load(fitted)


def _place_rows(opened: tuple[Source, str], layout: bool, start: int, stop: int) -> Any:
    """On a worker: coordinates of some rows, and their places on a map; a text is what went
    wrong.
    """
    import numpy as np

    from ..io.rows import checked

    try:
        (table, estimator), numbers = _opened(*opened), np.arange(start, stop)
        rows = checked(table.take(numbers), numbers).float()
        values = [estimator.transform(rows)]
        values += [estimator.place(rows)] if layout else []
    except InputError as error:
        return str(error)
    return np.column_stack(values)
