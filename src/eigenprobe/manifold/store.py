"""A fitted estimator as a folder: what it is in JSON, numbers in safetensors, no pickle.

basis.safetensors    the `Basis` with its values at new points
rows.safetensors     fitted arrays, the graph, the maps that were made
estimator.json       parameters, other fitted attributes, and a digest of all this: what was damaged
or changed is not read
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..basis import Basis
from ..errors import InputError
from ..host.files import atomic_path, plain, reading, writable_folder, write_json
from ..host.validation import as_array
from ..neighbors.graph import Graph
from ..smoothers import Smoother
from ..smoothers.smoother import csr

if TYPE_CHECKING:
    from .eigenmaps import Eigenmaps

FORMAT = "eigenprobe.estimator/4"
FILES = ("basis.safetensors", "rows.safetensors")
CSR = ("crow_indices", "col_indices", "values")
SMOOTHER = ("kind", "step_time", "dimension")


def write_estimator(model: Eigenmaps, folder: str | os.PathLike[str]) -> None:
    """Write ``model``; the list of what belongs together comes last."""
    from safetensors.numpy import save_file

    if not isinstance(model.metric, str):
        raise InputError(
            "an estimator whose metric is a function cannot be written: load would not know it"
        )
    target, parameters, smoother = writable_folder(folder), model.get_params(), model._smoother
    model.basis_.save(target / FILES[0])
    fitted = {name: each for name, each in vars(model).items() if name not in parameters}
    names = [str(name) for name in fitted.pop("feature_names_in_", [])]
    arrays: dict[str, Any] = {
        name: each for name, each in fitted.items() if isinstance(each, np.ndarray)
    }
    arrays |= {f"map.{dimensions}": found for dimensions, found in model._maps.items()}
    arrays |= {f"matrix.{name}": getattr(smoother.matrix, name)() for name in CSR}
    arrays |= {"smoother.mass": smoother.mass, "graph.distances": smoother.known_graph.distances}
    with atomic_path(target / FILES[1]) as temporary:
        whole = {name: np.ascontiguousarray(as_array(each)) for name, each in arrays.items()}
        save_file(whole, temporary)
    if not isinstance(model.random_state, (int, type(None))):
        parameters["random_state"] = None  # a generator is not a setting
    facts = {name: each for name, each in fitted.items() if isinstance(each, (int, str))}
    made = {name: getattr(smoother, name) for name in SMOOTHER}
    facts = plain({"parameters": parameters, "names": names, "fitted": facts, "smoother": made})
    about = {"format": FORMAT, "facts": facts, "digest": _digest(target, facts)}
    write_json(target / "estimator.json", about)


def read_estimator(cls: type[Eigenmaps], folder: str | os.PathLike[str]) -> Eigenmaps:
    """The inverse of `write_estimator`."""
    from safetensors.numpy import load_file

    path = Path(folder) / "estimator.json"
    if not path.is_file():
        raise InputError(f"no fitted estimator in {folder}: {path.name} is missing")
    with reading(path, "an estimator written by eigenprobe"):
        about = json.loads(path.read_text(encoding="utf-8"))
        if about.get("format") != FORMAT:
            came = f"({FORMAT}), got {about.get('format')!r}: fit again"
            raise InputError(f"expected an estimator written by eigenprobe {came}")
        facts = about["facts"]
        if about["digest"] != _digest(path.parent, facts):
            raise InputError("expected the files as they were written, got others: fit again")
        given = facts["parameters"]
        given["hidden_layer_sizes"] = tuple(given["hidden_layer_sizes"])  # JSON has no tuples
        model: Any = cls(**given)
        arrays = load_file(path.with_name(FILES[1]))
        model.basis_ = Basis.load(path.with_name(FILES[0]))
        if facts["names"]:
            model.feature_names_in_ = np.array(facts["names"], dtype=object)
        model._blank = model._spread = None
        model._place = model._kept = slice(None)
        model.__dict__.update(facts["fitted"])
        model.__dict__.update({name: arrays[name] for name in arrays if "." not in name})
        maps = [array for name, array in arrays.items() if name.startswith("map.")]
        model._maps = {array.shape[1]: array for array in maps}
        extension: Any = model.basis_.extension
        known = getattr(extension, "inputs", extension)
        found: Any = {name: torch.from_numpy(each) for name, each in arrays.items() if "." in name}
        lists = (known.indices, found["graph.distances"])
        graph = Graph(known.points, *lists, metric=model.metric_, options=given["metric_kwds"])
        first, columns, values = (found[f"matrix.{name}"] for name in CSR)
        matrix = csr(first, columns, values, (graph.n, graph.n))
        own = facts["smoother"] | {"mass": found["smoother.mass"]}
        model._smoother = Smoother(matrix=matrix, graph=graph, **own)
    return model


def _digest(folder: Path, facts: dict[str, Any]) -> str:
    """The SHA-256 of the facts and of the files beside them."""
    found = [hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()]
    for name in FILES:
        with (folder / name).open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return " ".join(found)
