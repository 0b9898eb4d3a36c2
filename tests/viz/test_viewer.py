"""The live viewer: what it shows as plain functions, then the real thing in a browser."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.viz.panels import FIELDS, FILTERS, MODES, Choice, Panel, glb

from .conftest import Sphere


@pytest.mark.parametrize("mesh", [True, False])
def test_every_choice_can_be_shown(sphere: Sphere, mesh: bool) -> None:
    panel = Panel(sphere.basis, faces=sphere.faces if mesh else None)
    choices = [Choice(mode=mode) for mode in MODES]
    choices += [Choice(mode="Filtered shape", filter=name, low=2, high=9) for name in FILTERS]
    choices += [Choice(mode="From a point", field=name, point=5) for name in FIELDS]
    for choice in choices:
        xyz, rgb, text = panel.show(choice)
        assert xyz.shape == rgb.shape
        assert np.isfinite(xyz).all()
        assert 0 <= rgb.min() <= rgb.max() <= 1
        assert text


def test_filters_move_the_shape_as_they_should(sphere: Sphere) -> None:
    panel = Panel(sphere.basis, faces=sphere.faces)
    whole = panel.show(Choice(mode="Filtered shape", filter="lowpass", high=16))[0]
    np.testing.assert_allclose(whole, panel.xyz, atol=1e-9)  # a sphere's coordinates are harmonics
    point = panel.show(Choice(mode="Filtered shape", filter="lowpass", high=1))[0]
    assert np.ptp(point, axis=0).max() < 1e-9
    empty = panel.show(Choice(mode="Filtered shape", filter="band", low=10, high=16, outside=1.0))[0]
    assert np.abs(empty).max() < 1e-9  # and neither that band nor the rest holds any of them


def test_heat_is_strongest_at_its_source(sphere: Sphere) -> None:
    panel = Panel(sphere.basis, faces=sphere.faces)
    for field in FIELDS:
        rgb = panel.show(Choice(mode="From a point", field=field, point=17, reach=0.0))[1]
        assert rgb[17].sum() <= rgb.sum(1).min() + 0.05  # the map darkens with strength


@pytest.mark.parametrize("mesh", [True, False])
def test_a_ray_hits_the_near_side(sphere: Sphere, mesh: bool) -> None:
    panel = Panel(sphere.basis, faces=sphere.faces if mesh else None)
    row = panel.hit(np.array([0.05, 0.02, 5.0]), np.array([0.0, 0.0, -2.0]))
    assert row is not None
    assert panel.xyz[row, 2] > 0.9
    assert panel.hit(np.array([3.0, 0.0, 5.0]), np.array([0.0, 0.0, -1.0])) is None
    assert panel.nearest(panel.xyz[31]) == 31


def test_a_second_basis_takes_the_signs_of_the_first(sphere: Sphere) -> None:
    flipped = Basis(-sphere.basis.normalized, sphere.basis.mass, sphere.basis.eigenvalues, sphere.points)
    first, second = Panel(sphere.basis), Panel(flipped)
    second.align(first)
    np.testing.assert_allclose(second.show(Choice(index=3))[1], first.show(Choice(index=3))[1])


def test_glb_is_well_formed(sphere: Sphere) -> None:
    data = glb(sphere.points, sphere.faces, np.full((700, 3), 0.5))
    magic, version, length = struct.unpack("<4sII", data[:12])
    assert (magic, version, length) == (b"glTF", 2, len(data))
    size = struct.unpack("<I", data[12:16])[0]
    document = json.loads(data[20 : 20 + size])
    assert document["accessors"][0]["count"] == 700
    assert document["accessors"][3]["count"] == sphere.faces.size
    trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed")
    import io

    mesh = trimesh.load(io.BytesIO(data), file_type="glb", force="mesh", process=False)
    np.testing.assert_allclose(mesh.vertices, sphere.points, atol=1e-6)


def test_a_basis_without_points_is_told(sphere: Sphere) -> None:
    bare = Basis(sphere.basis.normalized, sphere.basis.mass, sphere.basis.eigenvalues)
    with pytest.raises(InputError, match="needs points"):
        Panel(bare)
    with pytest.raises(InputError, match="expected 700 points"):
        Panel(bare, sphere.points[:9])


@pytest.fixture
def viewer(sphere: Sphere, tmp_path: Path) -> Iterator[Any]:
    pytest.importorskip("viser", reason="viser is not installed")
    from eigenprobe.viz.viewer import serve

    path = tmp_path / "sphere.safetensors"
    sphere.basis.save(path)
    running = serve(path, compare=sphere.basis, faces=sphere.faces, port=_free_port(), block=False)
    yield running
    running.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_it_listens_on_loopback_only(viewer: Any) -> None:
    socket.create_connection(("127.0.0.1", viewer.port), timeout=5).close()
    assert viewer.url == f"http://127.0.0.1:{viewer.port}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only asks which address faces outwards
        except OSError:
            pytest.skip("this machine has no other address to try")
        address = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no other address to try")
    with pytest.raises(OSError):
        socket.create_connection((address, viewer.port), timeout=2)


@pytest.mark.browser
def test_the_viewer_in_a_browser(viewer: Any, watch: Any) -> None:
    seen = watch(viewer.url, width=900, height=500)
    seen.page.wait_for_selector("canvas", timeout=60_000)
    seen.page.get_by_text("λ = 2").first.wait_for(timeout=30_000)
    drawn = lambda image: image[100:400, :550].std() > 0.03  # noqa: E731 (the controls are not the picture)
    first = _until(seen, drawn)
    assert drawn(first)
    viewer.set(index=7)
    seen.page.get_by_text("λ = 6").first.wait_for(timeout=30_000)
    recoloured = lambda image: np.abs(image - first)[100:400, :550].mean() > 0.005  # noqa: E731
    assert recoloured(_until(seen, recoloured))
    # A click on the left sphere asks for the heat kernel at that point.
    seen.page.mouse.click(150, 250)
    seen.page.get_by_text(re.compile(r"point \d+, t = ")).first.wait_for(timeout=30_000)
    assert viewer.choice.mode == "From a point"
    assert viewer.panels[0].xyz[viewer.choice.point, 2] > 0
    assert seen.problems == []
    assert [url for url in seen.requests if "127.0.0.1" not in url and not url.startswith(("data:", "blob:"))] == []


def _until(seen: Any, wanted: Callable[[np.ndarray], bool]) -> np.ndarray:
    """The picture once it is as wanted, or after half a minute: meshes arrive and are decoded in their own time."""
    for _ in range(60):
        now = seen.pixels()
        if wanted(now):
            break
        seen.page.wait_for_timeout(500)
    return now
