"""The live viewer: a server on this machine, and the page it serves in a browser and on a phone."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.viz.viewer import Viewer, serve

from .conftest import READY, Sphere


@pytest.fixture
def viewer(sphere: Sphere, tmp_path: Path) -> Iterator[Viewer]:
    path = tmp_path / "ball.safetensors"
    sphere.basis.save(path)
    running = serve(path, compare=sphere.basis, faces=sphere.faces, port=_free_port(), block=False)
    yield running
    running.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_it_listens_on_loopback_only(viewer: Viewer) -> None:
    socket.create_connection(("127.0.0.1", viewer.port), timeout=5).close()
    assert viewer.url == f"http://127.0.0.1:{viewer.port}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(
                ("192.0.2.1", 9)
            )  # sends nothing: it only asks which address faces outwards
        except OSError:
            pytest.skip("this machine has no other address to try")
        address = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no other address to try")
    with pytest.raises(OSError):
        socket.create_connection((address, viewer.port), timeout=2)


def test_ports(viewer: Viewer, sphere: Sphere) -> None:
    second = serve(sphere.basis, port=viewer.port, block=False)  # taken: the next one
    assert second.port > viewer.port
    port = second.port
    second.stop()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=2)
    with pytest.raises(InputError, match=r"port must lie in 0..65535, got 99999999"):
        Viewer("", port=99_999_999)
    with pytest.raises(InputError, match=r"a choice has mode, index, .*, got colour"):
        viewer.set(colour=3)


@pytest.mark.browser
def test_the_viewer_in_a_browser(viewer: Viewer, watch: Any) -> None:
    seen = watch(viewer.url)
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    # Title, colour bar, spectrum, play.
    assert page.title() == "ball" and page.inner_text("h1") == "ball"
    assert (
        page.is_visible("#bar")
        and page.is_visible("#play")
        and page.inner_text("#value") == "λ = 2"
    )
    assert page.locator("#spectrum .scatterlayer").count() == 1
    page.wait_for_timeout(300)
    first = seen.pixels("#scene")
    assert first.std() > 0.03
    # From Python to the page.
    viewer.set(index=7)
    page.wait_for_function(
        "document.getElementById('value').textContent.startsWith('λ = 6')", timeout=10_000
    )
    page.wait_for_timeout(300)
    assert np.abs(seen.pixels("#scene") - first).mean() > 0.005
    viewer.set(playing=True)
    page.wait_for_function("window.report.state.index > 8", timeout=10_000)
    viewer.set(playing=False, index=2)
    # From the page to Python: a click on the left sphere asks for the heat kernel at that point.
    box = page.locator("#scene").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.get_by_text(re.compile(r"point \d+, t = ")).first.wait_for(timeout=10_000)
    page.wait_for_function("window.report.state.mode === 'point'")
    page.wait_for_timeout(300)
    assert viewer.choice["mode"] == "point"
    turn = np.array(page.evaluate("window.report.scene.turn")).reshape(3, 3)
    facing = (
        np.array(page.evaluate("[...window.report.shapes[0].shape.positions]")).reshape(-1, 3)
        @ turn[2]
    )
    assert facing[viewer.choice["point"]] > 0.9
    assert seen.problems == []
    assert [
        url
        for url in seen.requests
        if "127.0.0.1" not in url and not url.startswith(("data:", "blob:"))
    ] == []


@pytest.mark.browser
def test_other_settings_are_computed_live(sphere: Sphere, watch: Any) -> None:
    running = serve(sphere.basis, faces=sphere.faces, port=_free_port(), block=False)
    try:
        page = (seen := watch(running.url)).page
        page.wait_for_selector(READY, timeout=60_000)
        assert page.input_value("#again-k") == "16"
        page.fill("#again-k", "7")
        page.dispatch_event("#again-k", "change")
        page.wait_for_function("window.report?.shapes[0].k === 7", timeout=60_000)
        page.wait_for_selector(READY, timeout=60_000)
        page.fill("#again-neighbours", "10")
        page.select_option("#again-smoother", "row")
        page.wait_for_function(
            "document.getElementById('again-neighbours')?.value === '10' && window.report",
            timeout=60_000,
        )
        values = page.evaluate("window.report.shapes[0].eigenvalues")
        assert len(values) == 7 and np.allclose(values[1:4], 2, rtol=0.2)
        page.fill("#again-k", "100000")
        page.dispatch_event("#again-k", "change")
        page.wait_for_function(
            "/100000/.test(document.getElementById('again-said').textContent)", timeout=60_000
        )
        assert [problem for problem in seen.problems if "400" not in problem] == []
    finally:
        running.stop()


def _answer(viewer: Viewer, request: str) -> bytes:
    """All that comes back on one connection, until it is closed or silent."""
    with socket.create_connection(("127.0.0.1", viewer.port), timeout=2) as connection:
        connection.sendall(request.encode())
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except TimeoutError:
            pass
    return found


def test_the_body_of_a_refused_request_is_not_the_next_one(viewer: Viewer) -> None:
    """Any page can send a body: read as a request of its own, it had no Origin and steered the
    viewer.
    """
    own = f"127.0.0.1:{viewer.port}"
    choice = '{"index": 7}'
    inner = f"POST /choice HTTP/1.1\r\nHost: {own}\r\nContent-Length: {len(choice)}\r\n\r\n{choice}"
    outer = f"POST /choice HTTP/1.1\r\nHost: {own}\r\nOrigin: http://evil.example\r\n"
    outer += f"Content-Length: {len(inner)}\r\n\r\n"
    found = _answer(viewer, outer + inner)
    assert found.startswith(b"HTTP/1.0 403") and found.count(b"HTTP/1.") == 1
    assert viewer.choice["index"] != 7
    assert _answer(viewer, inner).startswith(b"HTTP/1.0 204") and viewer.choice["index"] == 7


def test_it_is_not_framed_and_odd_headers_are_refused(
    viewer: Viewer, capfd: pytest.CaptureFixture[str]
) -> None:
    own = f"127.0.0.1:{viewer.port}"
    assert b"frame-ancestors 'none'" in _answer(
        viewer, f"GET / HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n"
    )
    for header in ("Origin: http://[", "Host: [", "Content-Length: -1", "Content-Length: x"):
        found = _answer(viewer, f"POST /choice HTTP/1.1\r\nHost: {own}\r\n{header}\r\n\r\n")
        assert found.split()[1] in (b"400", b"403"), header
    assert "Traceback" not in capfd.readouterr().err


def _post(viewer: Viewer, path: str, body: str) -> tuple[int, str]:
    own = f"127.0.0.1:{viewer.port}"
    lines = f"POST {path} HTTP/1.1\r\nHost: {own}\r\nContent-Length: {len(body)}\r\n"
    lines += f"Connection: close\r\n\r\n{body}"
    head, _, text = _answer(viewer, lines).decode().partition("\r\n\r\n")
    return int(head.split()[1]), text


@pytest.mark.parametrize(
    "value", ['"7"', "[7]", '{"a": 7}', "null", "true", "7.5", "-1", "NaN", "1e400"]
)
def test_an_index_is_a_whole_number(
    viewer: Viewer, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Any kind of value was kept as what is shown, and given to whoever asked for it."""
    code, text = _post(viewer, "/choice", f'{{"mode": "point", "index": {value}}}')
    assert (
        code == 400
        and re.match("index must be (a whole number|at least 0), got ", text)
        and "\n" not in text
    )
    assert (
        viewer.choice["index"] == 2 and viewer.choice["mode"] == "vector"
    )  # nothing of it was taken
    assert _post(viewer, "/choice", '{"index": 7}') == (204, "") and viewer.choice["index"] == 7
    assert "Traceback" not in capfd.readouterr().err


def test_values_of_a_choice_are_of_its_kinds(viewer: Viewer) -> None:
    for name, value, kind in [
        ("mode", 1, "a text"),
        ("wire", 1, "True or False"),
        ("range", float("inf"), "finite"),
    ]:
        with pytest.raises(InputError, match=f"{name} must be .*{kind}"):
            viewer.set(**{name: value})
    viewer.set(range=2, detail=0.5, wire=True, mode="point", point=0)
    assert (viewer.choice["range"], viewer.choice["wire"], viewer.choice["point"]) == (2, True, 0)
    for body in ("[]", '[["index", 7]]', "7", "null", "[" * 5000, "{"):
        assert _post(viewer, "/choice", body) == (
            400,
            "expected a choice, an object of names and values",
        )
    code, text = _post(viewer, "/basis", '{"k": 5, "neighbours": [1], "smoother": "adaptive"}')
    assert code == 400 and text.startswith("neighbours must be") and "[1]" in text


def test_an_empty_host_is_refused() -> None:
    with pytest.raises(InputError, match="expected a host"):
        Viewer("", host="")
