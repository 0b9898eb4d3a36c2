"""A fitted estimator as a folder: what it is in JSON, numbers in safetensors, no pickle.

basis.safetensors    the `Basis` with its values at new points
rows.safetensors     vectors (n, K) and mass (n,) of all rows, distances of the graph, the map if
one was made estimator.json       parameters, columns and precision
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from ..basis import Basis
from ..errors import InputError
from ..host.files import atomic_path, reading, writable_folder, write_json
from ..host.validation import as_array
from ..neighbors.graph import Graph
from ..neighbors.layout import as_scipy
from ..points import LARGEST
from .coordinates import check_parameters
from .precomputed import AffinityGraph

if TYPE_CHECKING:
    from .eigenmaps import Eigenmaps

FORMAT = "eigenprobe.estimator/2"
# Of a file, and the attributes that hold them; those that are None or not there are left out.
ARRAYS = {name: f"_{name}" for name in ("blank", "spread", "place", "kept")}
ARRAYS |= {"vectors": "vectors_", "mass": "mass_", "embedding": "embedding_"}
FACTS = {"columns": "n_features_in_", "metric": "metric_"}
WEIGHTS = ("data", "indices", "indptr")  # of given affinities


def write_estimator(model: Eigenmaps, folder: str | os.PathLike[str]) -> None:
    """Write ``model``; the list of what belongs together comes last."""
    from safetensors.numpy import save_file

    if not isinstance(model.metric, str):
        raise InputError(
            "an estimator whose metric is a function cannot be written: load would not know it"
        )
    target, graph = writable_folder(folder), model._graph
    model.basis_.save(target / "basis.safetensors")
    arrays = {name: vars(model).get(attribute) for name, attribute in ARRAYS.items()}
    arrays |= {"indices": graph.indices, "distances": graph.distances}
    arrays |= {f"map{dimensions}": found for dimensions, found in model._maps.items()}
    if isinstance(graph, AffinityGraph):
        weights = as_scipy(graph.weights)
        arrays |= {f"w_{name}": getattr(weights, name) for name in WEIGHTS}
    with atomic_path(target / "rows.safetensors") as temporary:
        found = {name: as_array(array) for name, array in arrays.items() if array is not None}
        save_file({name: np.ascontiguousarray(array) for name, array in found.items()}, temporary)
    facts = {
        "format": FORMAT,
        "parameters": model.get_params(),
        "dtype": np.dtype(model._dtype).name,
    }
    if not isinstance(model.random_state, (int, type(None))):
        facts["parameters"]["random_state"] = None  # a generator is not a setting
    facts |= {name: getattr(model, attribute) for name, attribute in FACTS.items()}
    facts["names"] = [str(name) for name in getattr(model, "feature_names_in_", [])]
    write_json(target / "estimator.json", facts)


def read_estimator(cls: type[Eigenmaps], folder: str | os.PathLike[str]) -> Eigenmaps:
    """The inverse of `write_estimator`."""
    from safetensors.numpy import load_file

    path = Path(folder) / "estimator.json"
    if not path.is_file():
        raise InputError(f"no fitted estimator in {folder}: {path.name} is missing")
    with reading(path, "an estimator written by eigenprobe"):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts.get("format") != FORMAT:
            came = f"({FORMAT}), got {facts.get('format')!r}: fit again"
            raise InputError(f"expected an estimator written by eigenprobe {came}")
        given = facts["parameters"]  # JSON has no tuples
        sizes = {"hidden_layer_sizes": tuple(given["hidden_layer_sizes"])}
        model = cls(**given | sizes)
        check_parameters(model)
        model.basis_ = Basis.load(path.with_name("basis.safetensors"))
        if facts["names"]:
            model.feature_names_in_ = np.array(facts["names"], dtype=object)
        model.__dict__.update({FACTS[name]: facts[name] for name in FACTS})
        model._dtype = np.dtype(facts["dtype"])
        arrays = load_file(path.with_name("rows.safetensors"))
        known = {name: torch.from_numpy(array) for name, array in arrays.items() if array.ndim}
        model._place, model._kept = arrays.get("place"), arrays.get("kept")
        model._blank, model._spread = known.get("blank"), known.get("spread")
        extension: Any = getattr(model.basis_.extension, "context", model.basis_.extension)
        _check_indices(known, len(extension.points), len(model.basis_.mass))
        _check_numbers(arrays, facts["metric"], len(extension.points))
        if "w_data" in known:
            n, parts = len(known["indices"]), tuple(arrays[f"w_{name}"] for name in WEIGHTS)
            model._graph = AffinityGraph.of(
                csr_matrix(parts, shape=(n, n)), extension.points.device
            )
        else:
            lists = (known["indices"], known["distances"])
            model._graph = Graph(
                extension.points, *lists, facts["metric"], options=given.get("metric_kwds")
            )
        model._maps = {
            array.shape[1]: array for name, array in arrays.items() if name.startswith("map")
        }
        vectors, mass = arrays["vectors"], arrays["mass"]
        shape = (len(mass), given["n_components"])
        if vectors.shape != shape or arrays["embedding"].shape != shape:
            raise InputError(f"expected vectors and coordinates of {len(mass)} rows, got others")
        model._finish(vectors, mass, arrays["embedding"])
        if model.map_dimensions in model._maps:
            model.layout_  # noqa: B018 (it was made, and is again)
    return model


def _check_numbers(arrays: dict[str, np.ndarray], metric: str, distinct: int) -> None:
    """Numbers of a damaged file may be no numbers, and maps of other rows."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not (np.abs(array, dtype=np.float64) < LARGEST).all():
            raise InputError(f"expected finite numbers, got others in {name!r}")
        if name.startswith("map") and array.shape != (distinct, int(name[3:])):
            raise InputError(
                f"expected a map of {distinct} rows in {name[3:]} dimensions, got {array.shape}"
            )
    if metric == "cosine" and "blank" not in arrays:
        raise InputError("expected what stands for empty rows, which angles have none of")


def _check_indices(known: dict[str, torch.Tensor], distinct: int, rows: int) -> None:
    """Rows that a damaged file names may not be there."""
    for name, most in {"indices": distinct, "place": distinct, "kept": rows}.items():
        found = known.get(name)
        if found is not None and not bool(((found >= 0) & (found < most)).all()):
            raise InputError(f"expected {name} from 0 to {most - 1}, got others")
    if known["indices"].shape != known["distances"].shape or len(known["indices"]) != distinct:
        raise InputError(
            f"expected neighbours of {distinct} rows, got {tuple(known['indices'].shape)}"
        )
