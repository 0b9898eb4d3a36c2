"""A fitted estimator as a folder: what it is in JSON, numbers in safetensors, no pickle.

basis.safetensors    the `Basis` with its values at new points
rows.safetensors     vectors (n, K) and mass (n,) of all rows, distances of the graph, the map if one was made
estimator.json       parameters, columns and precision
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
from ..graph import Graph
from ..host.files import atomic_path, reading, writable_folder, write_json
from .precomputed import AffinityGraph, as_scipy

if TYPE_CHECKING:
    from .eigenmaps import OptimalApproximationEigenmaps

FORMAT = "eigenprobe.estimator/1"


def write_estimator(model: OptimalApproximationEigenmaps, folder: str | os.PathLike[str]) -> None:
    """Write ``model``; the list of what belongs together comes last."""
    from safetensors.numpy import save_file

    if not isinstance(model.metric, str):
        raise InputError("an estimator whose metric is a function cannot be written to a file: load would not know it")
    target = writable_folder(folder)
    model.basis_.save(target / "basis.safetensors")
    graph = model._graph
    arrays = {"vectors": model._wide, "mass": model.mass_}
    if model._fold is not None:
        arrays["fold"] = model._fold
    arrays |= {"indices": graph.indices.cpu().numpy(), "distances": graph.distances.cpu().numpy()}
    if isinstance(graph, AffinityGraph):
        weights = as_scipy(graph.weights)
        arrays |= {f"w_{name}": getattr(weights, name) for name in ("data", "indices", "indptr")}
    if hasattr(model, "_blank"):
        arrays["blank"] = model._blank.cpu().numpy()
    if "layout_" in vars(model):
        arrays |= {"layout": model.layout_, "map": model._map}
    if model._place is not None and model._kept is not None:
        arrays |= {"place": model._place.cpu().numpy(), "kept": model._kept.cpu().numpy()}
    with atomic_path(target / "rows.safetensors") as temporary:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary)
    facts: dict[str, Any] = {"format": FORMAT, "parameters": model.get_params(), "metric": graph.metric}
    if not isinstance(model.random_state, (int, type(None))):
        facts["parameters"]["random_state"] = None  # a generator is not a setting
    facts |= {"dtype": np.dtype(model._dtype).name, "columns": model.n_features_in_, "total": model._total}
    facts["searched"] = model._searched
    facts["names"] = [str(name) for name in getattr(model, "feature_names_in_", [])]
    write_json(target / "estimator.json", facts)


def read_estimator(
    cls: type[OptimalApproximationEigenmaps], folder: str | os.PathLike[str]
) -> OptimalApproximationEigenmaps:
    """The inverse of `write_estimator`."""
    from safetensors.numpy import load_file

    path = Path(folder) / "estimator.json"
    if not path.is_file():
        raise InputError(f"no fitted estimator in {folder}: {path.name} is missing")
    with reading(path, "an estimator written by eigenprobe"):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts.get("format") != FORMAT:
            raise InputError(f"expected an estimator written by eigenprobe ({FORMAT}), got {facts.get('format')!r}")
        given = facts["parameters"]
        stages = given.get("map_stages")
        given["map_stages"] = stages and tuple(map(tuple, stages))
        model = cls(**{**given, "hidden_layer_sizes": tuple(given["hidden_layer_sizes"])})
        model.basis_ = Basis.load(path.with_name("basis.safetensors"))
        arrays = load_file(path.with_name("rows.safetensors"))
        model._dtype, model._total, model.n_features_in_ = np.dtype(facts["dtype"]), facts["total"], facts["columns"]
        if facts["names"]:
            model.feature_names_in_ = np.array(facts["names"], dtype=object)
        extension: Any = model.basis_.extension
        points = getattr(extension, "points", None)
        points = extension.context.points if points is None else points
        known = {name: torch.from_numpy(array) for name, array in arrays.items() if array.ndim}
        _check_indices(known, len(points), len(model.basis_.mass))
        if "w_data" in known:
            parts, n = (arrays[f"w_{name}"] for name in ("data", "indices", "indptr")), len(known["indices"])
            model._graph = AffinityGraph.of(csr_matrix(tuple(parts), shape=(n, n)), points.device)
        else:
            options = given.get("metric_kwds")
            model._graph = Graph(points, known["indices"], known["distances"], facts["metric"], options=options)
        model.metric_, model._searched = facts["metric"], facts.get("searched", False)
        if "blank" in known:
            model._blank = known["blank"]
        model._place, model._kept, model._fold = known.get("place"), known.get("kept"), arrays.get("fold")
        model._finish(arrays["vectors"].astype(np.float64), arrays["mass"].astype(np.float64) * model._total)
        if "layout" in arrays:
            model.__dict__["layout_"], model._map = arrays["layout"], arrays["map"]
    return model


def _check_indices(known: dict[str, torch.Tensor], distinct: int, rows: int) -> None:
    """Rows that a damaged file names may not be there."""
    for name, most in {"indices": distinct, "place": distinct, "kept": rows}.items():
        found = known.get(name)
        if found is not None and not bool(((found >= 0) & (found < most)).all()):
            raise InputError(f"expected {name} from 0 to {most - 1}, got others")
    if known["indices"].shape != known["distances"].shape or len(known["indices"]) != distinct:
        raise InputError(f"expected neighbours of {distinct} rows, got {tuple(known['indices'].shape)}")
