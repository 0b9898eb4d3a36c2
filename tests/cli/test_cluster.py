"""Commands on a real Dask cluster of two worker processes on loopback, one of them killed on the
way.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import eigenprobe as ep
from eigenprobe.cli import main
from eigenprobe.cli.cluster import spread

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": None,
    }
    with (
        distributed.LocalCluster(**options, silence_logs=50) as local,
        distributed.Client(local) as found,
    ):
        yield found


def _fatal_once(number: int, mark: str) -> tuple[int, int]:
    """The third task kills its worker when it first runs."""
    if number == 2 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2, os.getpid()


def test_a_lost_worker_loses_no_task(client: Any, tmp_path: Path) -> None:
    tasks = [(number, str(tmp_path / "mark")) for number in range(6)]
    found = dict(spread(_fatal_once, tasks, "squares", client.scheduler.address))
    assert {number: square for number, (square, _) in found.items()} == {
        number: number**2 for number in range(6)
    }
    assert (tmp_path / "mark").exists() and os.getpid() not in {
        process for _, process in found.values()
    }


def test_a_folder_of_shapes(
    client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, shapes = np.random.default_rng(0), tmp_path / "shapes"
    (shapes / "below").mkdir(parents=True)
    for name in ("a", "b", "c", "below/a"):
        x = rng.normal(size=(150, 3))
        np.save(shapes / f"{name}.npy", x / np.linalg.norm(x, axis=1, keepdims=True))
    (shapes / "bad.npy").write_bytes(b"no array")
    words = f"decompose {shapes} -k 4 --no-report --out {tmp_path}/o".split()
    words += ["--scheduler", client.scheduler.address]
    assert main(words) == 2
    out = capsys.readouterr()
    assert (
        "decomposed 4 of 5 shapes" in out.out
        and "1 of 5 shapes were not decomposed" in out.err
        and "bad.npy" in out.out
    )
    for name, folder in (("a", "a"), ("b", "b"), ("c", "c"), ("below/a", "below/a")):
        basis = ep.Basis.load(tmp_path / "o" / folder / "basis.safetensors")
        alone = ep.decompose(np.load(shapes / f"{name}.npy"), k=4)
        np.testing.assert_allclose(basis.eigenvalues, alone.eigenvalues, rtol=1e-6)
        np.testing.assert_allclose(basis.vectors, alone.vectors, atol=1e-4)
    assert (tmp_path / "o" / "thumbnails" / "below__a.png").is_file()
    assert "4 files done, 1 failed" in (tmp_path / "o" / "index.html").read_text()
    (shapes / "bad.npy").unlink()
    (tmp_path / "o" / "b" / "basis.safetensors").unlink()
    assert main(words) == 0
    assert "decomposed 1 of 4 shapes, 3 already there" in capsys.readouterr().out


def test_rows_are_placed_by_workers(client: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(900, 6)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    words = f"embed {tmp_path}/rows.npy -k 3 --no-report --device cpu --out".split()
    assert main([*words, str(tmp_path / "alone")]) == 0
    cluster = ["--scheduler", client.scheduler.address]
    assert main([*words, str(tmp_path / "spread"), *cluster]) == 0
    found = np.load(tmp_path / "spread" / "embedding.npz")["embedding"]
    expected = np.load(tmp_path / "alone" / "embedding.npz")["embedding"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    written = {path.name for path in (tmp_path / "spread").iterdir()}
    assert written == {"embedding.npz", "summary.json"}


def test_a_sample_is_fitted_and_workers_place_the_rest(
    client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many rows as `--sample` says, chosen by the seed; a worker that has placed others before
    sees the new fit.
    """
    rng = np.random.default_rng(0)
    address, path = client.scheduler.address, str(tmp_path / "rows.npy")
    for turn, seed in enumerate((3, 4)):
        rows = rng.normal(size=(400, 6)).astype(np.float32)
        np.save(path, rows)
        words = f"embed {path} -k 3 --no-report --device cpu --sample 100 --seed {seed}".split()
        assert main([*words, "--out", str(tmp_path / "o"), "--force", "--scheduler", address]) == 0
        chosen = np.sort(np.random.default_rng(seed).choice(400, 100, replace=False, shuffle=False))
        model = ep.Eigenmaps(3, random_state=seed, device="cpu").fit(rows[chosen])
        found = np.load(tmp_path / "o" / "embedding.npz")["embedding"]
        np.testing.assert_allclose(found, model.transform(rows), atol=1e-5, err_msg=f"turn {turn}")
    rows[321, 2] = np.nan
    np.save(path, rows)
    assert main([*words, "--out", str(tmp_path / "bad"), "--scheduler", address]) == 2
    assert "features must be finite, row 321 has NaN" in capsys.readouterr().err


def test_embed_on_workers_takes_labels_keys_maps_and_new_rows(client: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, kinds = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    rows[:, 0] += 8 * kinds
    np.savez(tmp_path / "t.npz", first=rows.astype(np.float32), second=rows[:, :2], kinds=kinds)
    np.savez(tmp_path / "new.npz", first=rows[:7].astype(np.float32), second=rows[:7, :2])
    words = f"embed {tmp_path}/t.npz --key first --labels kinds --layout --device cpu".split()
    words += f"--new {tmp_path}/new.npz -k 3 --out".split()
    assert main([*words, str(tmp_path / "alone")]) == 0
    assert main([*words, str(tmp_path / "spread"), "--scheduler", client.scheduler.address]) == 0
    alone, found = (np.load(tmp_path / name / "embedding.npz") for name in ("alone", "spread"))
    assert (found["labels"] == kinds).all() and found["layout"].shape == (300, 2)
    for name in ("embedding", "new", "eigenvalues", "layout", "new_layout"):
        np.testing.assert_allclose(found[name], alone[name], atol=2e-3 * np.abs(alone[name]).max())
    assert (tmp_path / "spread" / "report.html").stat().st_size > 10_000
    frame = pandas.DataFrame(rows, columns=list("abcd")).assign(kind=kinds)
    frame.to_parquet(tmp_path / "t.parquet")  # a numeric column of labels is no feature
    words = f"embed {tmp_path}/t.parquet --labels kind -k 3 --no-report --device cpu".split()
    assert (
        main([*words, "--out", str(tmp_path / "p"), "--scheduler", client.scheduler.address]) == 0
    )
    again = np.load(tmp_path / "p" / "embedding.npz")["embedding"]
    np.testing.assert_allclose(again, alone["embedding"], atol=2e-3)


def test_a_task_that_had_written_before_its_worker_was_lost_is_done(
    client: Any, tmp_path: Path
) -> None:
    """It is repeated over what lies there; so is one of which only the first file was written."""
    x = np.random.default_rng(0).normal(size=(150, 3))
    (tmp_path / "shapes").mkdir()
    for name in ("a", "b"):
        np.save(tmp_path / "shapes" / f"{name}.npy", x / np.linalg.norm(x, axis=1, keepdims=True))
    words = f"decompose {tmp_path}/shapes -k 4 --no-report --out {tmp_path}/o".split()
    for more in ([], ["--scheduler", client.scheduler.address]):
        (tmp_path / "o" / "a").mkdir(parents=True, exist_ok=True)
        (tmp_path / "o" / "a" / "basis.safetensors").write_bytes(b"half")
        (tmp_path / "o" / "a" / "summary.json").unlink(missing_ok=True)
        assert main([*words, *more]) == 0
        assert ep.Basis.load(tmp_path / "o" / "a" / "basis.safetensors").k == 4


def _deaf() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_is_told_by_one_process() -> None:
    """A terminal interrupts the workers too, each of which would show its traceback."""
    from eigenprobe.cli.cluster import cluster

    before = signal.getsignal(signal.SIGINT)
    with cluster("processes") as workers:
        assert all(workers.run(_deaf).values()) and signal.getsignal(signal.SIGINT) is before
