"""Odd arrays and damaged files: every input is ok or an `InputError`, and what is ok obeys the laws
of a basis.

``make test-long`` tries 300 arrays and 100 files; ``make fuzz`` sets EIGENPROBE_FUZZ to the number
of arrays (and a third as many files). Seeded: the same inputs on every run, or those of
EIGENPROBE_FUZZ_SEED.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

import eigenprobe as ep
from eigenprobe.errors import InputError
from tests.trust import files

COUNT = int(os.environ.get("EIGENPROBE_FUZZ", "300"))
SEED = int(os.environ.get("EIGENPROBE_FUZZ_SEED", "0"))
BOUNDED = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}
PHASES = (Phase.explicit, Phase.generate)  # shrinking a slow failure takes longer than reading it
DTYPES = ("f8", "f4", "f2", ">f8", "i8", "i2", "u1", "bool", "c16", "U4", "O")
KINDS = ("normal", "grid", "copies", "line", "clusters", "sphere", "constant", "stray")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(60 + 2 * COUNT),
]


def drawn(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """A cloud ``(n, d)`` that is odd in one way."""
    x = rng.normal(size=(n, d))
    if kind == "grid":
        x = rng.integers(0, 4, size=(n, d)).astype(float)
    elif kind == "copies":
        x = x[rng.integers(0, max(1, n // 3), size=n)] if n else x
    elif kind == "line":
        x = rng.random((n, 1)) * np.ones(d)
    elif kind == "clusters":
        x[: n // 2] += 10.0 ** rng.integers(1, 12)
    elif kind == "sphere":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    elif kind == "constant":
        x = np.full((n, d), rng.normal())
    elif kind == "stray" and n:
        x[0] *= 10.0 ** rng.integers(1, 9)
    return x


clouds = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "n": st.integers(0, 90),
        "d": st.sampled_from([0, 1, 2, 3, 3, 3, 5, 14, 40]),
        "dtype": st.sampled_from([*DTYPES[:2], *DTYPES[:2], *DTYPES]),
        "scale": st.sampled_from([0, 0, 0, -200, -150, -30, -10, 10, 30, 150, 200]),
        "spoiled": st.sampled_from(
            ["", "", "", "", "nan", "inf", "flat", "batch", "masked", "reversed", "tensor"]
        ),
        "k": st.sampled_from([1, 2, 3, 5, 10, 0, -1, 1000]),
        "seed": st.integers(0, 10**6),
    }
)
OPTIONS: dict[str, tuple[Any, ...]] = {
    "smoother": ("symmetric", "row"),
    "metric": ("cosine", "scale-invariant"),
    "neighbours": ("plain", 1, 2, 5, 30, 1000),
    "bandwidth": (1e-3, 1.0, 1e3),
    "dimension": (1.0, 1.5, 2.0, 3.0, 7.0),
    "potential": ("weights", "random", "zero"),
    "boundary": ("dirichlet", "mask"),
    "anisotropy": (0.0, 1.0, 30.0, "field"),
    "measure": (0.0, 0.5, 1.0, "weights"),
    "resolution": ("all", 5, 40),
    "parts": ("all", "largest"),
    "eigenvalues": ("mean", "worst"),
    "probes": ("heat", "wavelet", "hadamard", "features"),
}
pairs = st.sampled_from([(name, value) for name, values in OPTIONS.items() for value in values])
options = st.lists(pairs, max_size=4, unique_by=lambda pair: pair[0]).map(dict)


def made(case: dict[str, Any]) -> Any:
    """The array of a case."""
    rng = np.random.default_rng(case["seed"])
    with np.errstate(all="ignore"):
        x: Any = (drawn(case["kind"], case["n"], case["d"], rng) * 10.0 ** case["scale"]).astype(
            case["dtype"]
        )
    numbers = x.dtype.kind == "f" and x.size
    if case["spoiled"] in ("nan", "inf") and numbers:
        x[-1, 0] = float(case["spoiled"])
    elif case["spoiled"] == "flat":
        x = x.ravel()
    elif case["spoiled"] == "batch":
        x = x[None, None]
    elif case["spoiled"] == "masked":
        x = np.ma.masked_array(x, np.arange(x.size).reshape(x.shape) == 1)
    elif case["spoiled"] == "reversed":
        x = x[::-1]
    elif case["spoiled"] == "tensor" and x.dtype in (np.float64, np.float32, np.int64):
        x = torch.as_tensor(x)
    return x


def given_options(chosen: dict[str, Any], x: Any, seed: int) -> dict[str, Any]:
    """The options that are not left at their defaults, with fields and functions on the points."""
    rng = np.random.default_rng(seed)
    n, d = (*x.shape, 1, 1)[:2]
    fields = {
        "weights": rng.uniform(0.1, 10, n),
        "random": rng.normal(size=n),
        "zero": np.zeros(n),
        "mask": rng.random(n) < 0.3,
        "field": rng.normal(size=(n, d)),
    }
    return {name: fields.get(value, value) for name, value in chosen.items()}


@seeded(SEED)
@given(case=clouds, chosen=options)
@settings(max_examples=COUNT, phases=PHASES, **BOUNDED)
def test_arrays(case: dict[str, Any], chosen: dict[str, Any]) -> None:
    x = made(case)
    given = given_options(chosen, x, case["seed"])
    try:
        basis = ep.decompose(x, case["k"], **given).numpy()
    except InputError as error:
        assert "\n" not in str(error).strip()
        return
    assert basis.normalized.shape == (len(x), case["k"])
    assert np.isfinite(basis.normalized).all() and np.isfinite(basis.eigenvalues).all()
    tolerance = 1e-8 if basis.normalized.dtype == np.float64 else 2e-5
    gram = basis.normalized.astype(float).T @ basis.normalized.astype(float)
    assert np.abs(gram - np.eye(case["k"])).max() < tolerance
    assert abs(float(basis.mass.astype(float).sum()) - 1) < tolerance
    assert np.isfinite(np.asarray(basis(x[:3]))).all()
    # Those of the covariance of probes are no eigenvectors of the smoother, which "row" is about.
    if not {"eigenvalues", "probes"} & given.keys() and given.get("smoother") != "row":
        assert residuals(basis).max() < 2e-5


def residuals(basis: ep.Basis) -> np.ndarray:
    """``|A q - mu q|`` of every pair, ``mu = 1 - lambda tau``, of the operator that made a basis,
    at its own points.
    """
    made = basis.prepared()
    smoother = made.smoother_as_given
    if (
        not made.cloud.whole or smoother.n != basis.n
    ):  # copies share a row, and a working sample has its own operator
        return np.zeros(1)
    q = torch.as_tensor(np.ascontiguousarray(basis.normalized, np.float64))
    values = torch.as_tensor(np.ascontiguousarray(basis.eigenvalues, np.float64))
    mu = 1 - (values - (smoother.lowest or 0.0)) * float(smoother.step_time)
    return (smoother.apply(q.to(smoother.dtype)).double() - mu * q).norm(dim=0).numpy()


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes, Any]]:
    found = files.write_all(tmp_path_factory.mktemp("fuzz"))
    return [
        (path.name, path.read_bytes(), read) for path, readers in found.items() for read in readers
    ]


DAMAGE = ("cut", "flip", "zero", "repeat", "insert", "number", "swap")


def damaged(data: bytes, how: str, rng: np.random.Generator) -> bytes:
    """The file with one kind of damage."""
    content = bytearray(data)
    first, last = sorted(int(i) for i in rng.integers(len(data) + 1, size=2))
    if how == "cut":
        return bytes(content[:first])
    if how == "flip":
        for place in rng.integers(len(data), size=int(rng.integers(1, 20))):
            content[place] ^= 1 << int(rng.integers(8))
    elif how == "zero":
        content[first:last] = bytes(last - first)
    elif how == "repeat":
        content[first:first] = content[first:last]
    elif how == "insert":
        content[first:first] = rng.bytes(int(rng.integers(1, 64)))
    elif how == "number":  # a digit of a header or a text becomes a larger one
        digits = [i for i, byte in enumerate(content[:2000]) if 48 <= byte <= 57]
        if digits:
            content[digits[int(rng.integers(len(digits)))]] = ord("9")
    else:
        content = content[first:last] + content[:first] + content[last:]
    return bytes(content)


@seeded(SEED)
@given(which=st.integers(0, 10**6), how=st.sampled_from(DAMAGE), seed=st.integers(0, 10**6))
@settings(max_examples=max(COUNT // 3, 1), phases=PHASES, **BOUNDED)
def test_files(stock: list[tuple[str, bytes, Any]], which: int, how: str, seed: int) -> None:
    name, data, read = stock[which % len(stock)]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / name
        path.write_bytes(damaged(data, how, np.random.default_rng(seed)))
        try:
            read(path)
        except InputError as error:
            assert name in str(error), error
            assert "\n" not in str(error).strip(), error
