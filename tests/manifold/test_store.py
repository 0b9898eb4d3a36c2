"""Tests of `estimators.store`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from eigenprobe import Eigenmaps, InputError
from tests.manifold.test_precomputed import _model


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize(
    "options",
    [{}, {"solver": "network", "max_iter": 3}, {"metric": "manhattan"}, {"max_samples": 80}],
)
def test_files_without_pickle(
    tmp_path: Path, rng: np.random.Generator, options: dict[str, Any]
) -> None:
    pandas = pytest.importorskip("pandas")
    table = rng.normal(size=(300, 6)) + 4 * rng.normal(size=(3, 6))[rng.integers(3, size=300)] / 3
    frame = pandas.DataFrame(table, columns=list("abcdef"))
    model = _model(**options).fit(frame)
    model.save(tmp_path / "fitted")
    assert {path.suffix for path in (tmp_path / "fitted").iterdir()} == {".safetensors", ".json"}
    again = Eigenmaps.load(tmp_path / "fitted")
    assert again.get_params() == model.get_params() and list(again.feature_names_in_) == list(
        "abcdef"
    )
    np.testing.assert_allclose(again.embedding_, model.embedding_, atol=1e-12)
    np.testing.assert_allclose(
        again.transform(frame + 0.1), model.transform(frame + 0.1), atol=1e-12
    )
    with pytest.raises(InputError, match="no fitted estimator"):
        Eigenmaps.load(tmp_path)
    facts = json.loads((tmp_path / "fitted" / "estimator.json").read_text())
    (tmp_path / "fitted" / "estimator.json").write_text(json.dumps(facts | {"format": "other"}))
    with pytest.raises(InputError, match="expected an estimator written by eigenprobe"):
        Eigenmaps.load(tmp_path / "fitted")


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_files_of_a_table_with_copies(tmp_path: Path, rng: np.random.Generator) -> None:
    X = rng.normal(size=(50, 4))
    model = _model(3).fit(np.concatenate([X, X[:6]]))
    model.save(tmp_path / "fitted")
    again = Eigenmaps.load(tmp_path / "fitted")
    np.testing.assert_allclose(again.layout_, model.layout_, atol=1e-6)
    np.testing.assert_array_equal(again.embedding_[50:], model.embedding_[:6])


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
@pytest.mark.parametrize("options", [{"k": 2, "coordinates": "map"}, {"metric": "cosine"}])
def test_files_that_were_changed_are_refused(
    tmp_path: Path, rng: np.random.Generator, options: dict[str, Any]
) -> None:
    from safetensors.numpy import load_file, save_file

    x, folder = rng.normal(size=(90, 6)), tmp_path / "fitted"
    _model(**options).fit(x).save(folder)

    def refused() -> None:
        with pytest.raises(InputError) as told:
            Eigenmaps.load(folder)
        assert "\n" not in str(told.value).strip()

    path = folder / "estimator.json"
    facts = json.loads(path.read_text())
    own = facts["facts"]
    for name in own["parameters"]:
        for odd in (-1, 1e9, "a", [], {"a": 1}, float("nan"), 10**400):
            changed = own | {"parameters": own["parameters"] | {name: odd}}
            path.write_text(json.dumps(facts | {"facts": changed}))
            refused()
    path.write_text(json.dumps(facts))
    for path in (folder / "rows.safetensors", folder / "basis.safetensors"):
        with safe_open(path, "np") as file:
            metadata = file.metadata()
        arrays = load_file(path)
        for name, array in arrays.items():
            spoiled = np.full_like(array, np.nan) if array.dtype.kind == "f" else array + 10**6
            for other in (
                array[:-1],
                array[:0],
                array[..., None],
                spoiled,
                array.astype(np.float16),
            ):
                save_file(arrays | {name: np.ascontiguousarray(other)}, path, metadata)
                refused()
            save_file({key: each for key, each in arrays.items() if key != name}, path, metadata)
            refused()
        save_file(arrays, path, metadata)
