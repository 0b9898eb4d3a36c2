"""Threads, processes and folders that are shared: same results, nothing left behind, nothing waits
for ever.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.host.files import atomic_path, locked_folder, writable_folder
from eigenprobe.host.threads import limited_threads
from eigenprobe.training import fit_network


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_path(tmp_path / "ours") as temporary:
        temporary.write_text("x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


def test_file_and_folder_are_synchronised_before_and_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", lambda *pair: (events.append("rename"), replace(*pair)))
    with atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("x")
    assert events == ["file", "rename", "folder"]


def test_many_may_try_a_folder_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: writable_folder(tmp_path / "out"), range(200))) == {
            tmp_path / "out"
        }
    assert not list((tmp_path / "out").iterdir())


def test_a_lock_ends_with_its_block_and_its_process(tmp_path: Path) -> None:
    program = "import sys, time; from eigenprobe.host.files import locked_folder\n"
    program += "with locked_folder(sys.argv[1]): print('locked', flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": str(Path(ep.__file__).parent.parent)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert other.stdout is not None and other.stdout.readline() == "locked\n"
    with pytest.raises(InputError, match="another run"), locked_folder(tmp_path):
        pass
    other.kill()
    other.wait()
    for _ in range(2):
        with locked_folder(tmp_path):
            pass


def test_thread_counts_do_not_leak() -> None:
    before, cpu = torch.get_num_threads(), torch.device("cpu")
    seen: list[int] = []

    def work(seed: int) -> None:
        with limited_threads(cpu, 100 if seed % 2 else None):
            time.sleep(0.001 * (seed % 5))
            seen.append(torch.get_num_threads())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(80)))
    assert torch.get_num_threads() == before
    assert max(seen) <= max(1, (os.cpu_count() or 2) // 2)


def test_network_fits_in_threads_are_those_of_one_after_the_other() -> None:
    angle = torch.linspace(0, 6.2832, 61)[:-1, None]
    cloud = torch.cat([angle.cos(), angle.sin()], 1)

    def fit(seed: int) -> torch.Tensor:
        return fit_network(cloud, 3, steps=3, seed=seed, ritz=False).normalized

    serial = [fit(seed) for seed in range(6)]
    state = torch.get_rng_state()
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(fit, range(6)))
    for one, other in zip(serial, together, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state), "the caller's generator is left alone"


def test_decompositions_in_threads_are_bit_identical(rng: np.random.Generator) -> None:
    clouds = [rng.normal(size=(300, 3)) for _ in range(6)]
    serial = [ep.decompose(x, 5).normalized for x in clouds]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda x: ep.decompose(x, 5).normalized, clouds))
    assert all(np.array_equal(one, other) for one, other in zip(serial, together, strict=True))


FORK = """
import multiprocessing, sys, numpy as np, torch
torch.set_num_threads(4)
import eigenprobe as ep
x = np.random.default_rng(0).normal(size=(300, 3))
x /= np.linalg.norm(x, axis=1, keepdims=True)
model = ep.SpectralModel.from_pretrained("surface")
def work(_):
    return model.encode(x, k=5).eigenvalues
torch.randn(2000, 2000) @ torch.randn(2000, 2000)  # starts the parent's threads
first = work(0)
torch.set_num_threads(4)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for values in pool.map(work, range(4)):
        np.testing.assert_allclose(values, first, rtol=1e-4, atol=1e-6)
assert torch.get_num_threads() == 4
print("done")
"""


def test_encode_in_forked_workers_after_use_in_the_parent() -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(ep.__file__).parent.parent),
        "OMP_NUM_THREADS": "4",
    }
    done = subprocess.run(
        [sys.executable, "-c", FORK], env=environment, capture_output=True, text=True, timeout=150
    )
    assert done.stdout == "done\n", done.stderr
