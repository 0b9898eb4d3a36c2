"""Nothing read from a file runs code, downloads, or reaches another file; the viewer answers its
own page only.
"""

from __future__ import annotations

import http.client
import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eigenprobe as ep
from eigenprobe.errors import InputError
from eigenprobe.io.rows import open_rows
from eigenprobe.io.tables import read_table
from eigenprobe.networks import store


class Harmful:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("harm"),))


def test_a_checkpoint_with_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    circle = torch.linspace(0, 6.28, 81)[:-1, None]
    cloud = torch.cat([circle.cos(), circle.sin()], 1)
    ep.training.fit_network(cloud, 3, steps=2, folder=tmp_path / "run")
    path = tmp_path / "run" / "last.ckpt"
    content = torch.load(path, weights_only=True)  # the whole state of a run is plain data
    torch.save({**content, "extra": Harmful()}, path)
    with pytest.raises(InputError, match="cannot read"):
        ep.training.fit_network(cloud, 3, steps=4, folder=tmp_path / "run")
    assert not Path("harm").exists()


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A basis of the packaged model."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    path = tmp_path_factory.mktemp("encoded") / "basis.safetensors"
    ep.SpectralModel.from_pretrained("surface").encode(
        x / np.linalg.norm(x, axis=1, keepdims=True), k=5
    ).save(path)
    return path


def _naming(source: Path, target: Path, model: str, kind: str | None) -> Path:
    """The file with a model named wherever a header can name one; ``kind`` is its own if None."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(source, framework="pt") as file:
        header = json.loads(file.metadata()["eigenprobe"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    own = header["extension"]
    header["extension"] = {"kind": kind or own["kind"], "facts": {**own["facts"], "model": model}}
    header |= {"model": model, "info": {**header["info"], "model": model}}
    save_file(tensors, target, metadata={"eigenprobe": json.dumps(header)})
    return target


def test_a_basis_downloads_nothing(
    encoded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked = []

    def download(name: str, **_: Any) -> str:
        asked.append(name)
        raise OSError("not in the cache")

    def connect(*_: Any) -> None:
        asked.append("a connection")
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr(socket.socket, "connect", connect)
    new, path = np.eye(3), tmp_path / "b.safetensors"
    values = ep.Basis.load(encoded)(new)
    same = ep.Basis.load(_naming(encoded, path, "foreign/model", None))
    np.testing.assert_array_equal(same(new), values)  # by what the file itself holds
    old = ep.Basis.load(_naming(encoded, path, "foreign/model", "pretrained"))
    assert old.extension is None  # of the third edition, whose files named a model
    with pytest.raises(InputError, match="at new points"):
        old(new)
    with pytest.raises(InputError, match="cannot read"):
        ep.Basis.load(_naming(encoded, path, "foreign/model", "foreign"))
    assert asked == []
    with pytest.raises(InputError, match="foreign/model"):
        ep.SpectralModel.from_pretrained("foreign/model")  # asked for by the caller
    assert asked == ["foreign/model"]


@pytest.mark.parametrize(
    "size", [{"width": 10**9}, {"layers": 10**6}, {"feedforward": 60_000, "width": 60_000}]
)
def test_sizes_of_a_model_are_compared_before_memory_is_taken(
    tmp_path: Path, size: dict[str, int]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(store.PACKAGED / "surface", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "network": config["network"] | size}))
    with pytest.raises(InputError, match=r"config.json|at most"):
        store.read(folder)


def test_hdf5_reads_no_other_file(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    secret, path = tmp_path / "secret.bin", tmp_path / "table.h5"
    secret.write_bytes(np.arange(40.0).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["features"] = np.ones((10, 4))
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "features", (10, 4), "f8", external=[(str(secret), 0, h5py.h5f.UNLIMITED)]
        )
    makers = {
        "link": lambda file: file.__setitem__(
            "features", h5py.ExternalLink(str(tmp_path / "other.h5"), "features")
        ),
        "virtual": lambda file: _virtual(h5py, file, tmp_path / "other.h5"),
    }
    for read in (read_table, open_rows):
        with pytest.raises(InputError, match="outside the file"):
            read(path)
    for make in makers.values():
        with h5py.File(path, "w") as file:
            make(file)
        for read in (read_table, open_rows):
            with pytest.raises(InputError, match="outside the file"):
                read(path)


def _virtual(h5py: Any, file: Any, other: Path) -> None:
    layout = h5py.VirtualLayout((10, 4), "f8")
    layout[:] = h5py.VirtualSource(str(other), "features", (10, 4))
    file.create_virtual_dataset("features", layout)


def test_the_viewer_answers_its_own_page_only(tmp_path: Path) -> None:
    from eigenprobe.viz.viewer import serve

    points = np.random.default_rng(0).normal(size=(60, 3))
    viewer = serve(ep.decompose(points, k=4), port=18432, block=False)
    here = f"127.0.0.1:{viewer.port}"

    def status(
        method: str = "GET", path: str = "/", body: str | None = None, **headers: str
    ) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=20)
        connection.request(method, path, body, headers=headers)
        code = connection.getresponse().status
        connection.close()
        return code

    try:
        assert status(Host=here) == 200
        assert status(Host=f"localhost:{viewer.port}") == 200
        choice = ("POST", "/choice", '{"index": 3}')
        for elsewhere in ("https://elsewhere.example", "null"):
            assert status(Host=here, Origin=elsewhere) == 403
            assert (
                status(*choice, Host=here, Origin=elsewhere) == 403 and viewer.choice["index"] == 2
            )
        assert (
            status(*choice, Host=here, Origin=f"http://{here}") == 204
            and viewer.choice["index"] == 3
        )
        assert status("POST", "/choice", "x" * 20_000, Host=here) == 400
        assert status("POST", "/choice", "[1, 2", Host=here) == 400
        assert status(path="/../../etc/passwd", Host=here) == 404
        assert status(Host=f"elsewhere.example:{viewer.port}") == 403
    finally:
        viewer.stop()
