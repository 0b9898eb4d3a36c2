"""The report is one file that works alone: its numbers, its size, and how it behaves in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.viz.report import write_report

from .conftest import READY, Sphere, array, make_sphere, payload


def test_stored_numbers_are_the_basis(sphere: Sphere, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, sphere.basis, sphere.points, faces=sphere.faces, title="sphere", facts={"points": 700})
    data = payload(path.read_text())
    n, k = sphere.basis.n, sphere.basis.k
    vectors = array(data["vectors"], "<i2").reshape(k, n).T / 32767 * data["scales"]
    np.testing.assert_allclose(vectors, sphere.basis.vectors, atol=1e-4)
    positions = array(data["positions"], "<i2").reshape(n, 3) / 32767
    np.testing.assert_allclose(positions, sphere.points / np.linalg.norm(sphere.points, axis=1).max(), atol=2e-3)
    np.testing.assert_array_equal(array(data["faces"], "<u2").reshape(-1, 3), sphere.faces)
    # The four lowest harmonics hold the coordinates of a sphere exactly.
    assert data["errors"][0] > 90
    assert max(data["errors"][3:]) < 1e-5
    assert sorted(data["errors"], reverse=True) == data["errors"]
    rebuilt = vectors[:, :4] @ np.array(data["coefficients"])[:4]
    np.testing.assert_allclose(rebuilt, positions, atol=2e-3)


def test_ten_thousand_points_and_fifty_vectors_stay_small(rng: np.random.Generator, tmp_path: Path) -> None:
    n, k = 10_000, 50
    points = rng.normal(size=(n, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    q = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))]))[0]  # noise: the worst case for gzip
    basis = Basis(q * np.sign(q[0, 0]), np.full(n, 1 / n), np.arange(k, dtype=float), points)
    path = tmp_path / "report.html"
    write_report(path, basis)
    assert path.stat().st_size < 8e6


def test_nothing_is_fetched_and_text_is_escaped(sphere: Sphere, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    bad = "<script>alert({})</script>"
    facts = {"a<b": "c&d", bad.format(2): bad.format(3), "nested": {"k": 3, "on": True}}
    write_report(path, sphere.basis, title=bad.format(1), facts=facts)
    page = path.read_text()
    assert "<script>alert" not in page
    assert all(f"&lt;script&gt;alert({i})" in page for i in range(1, 4))
    assert "a&lt;b" in page and "c&amp;d" in page
    assert not re.search(r'(?:src|href)="(?!data:)', page)


def test_large_shapes_are_thinned_and_say_so(sphere: Sphere, tmp_path: Path) -> None:
    for faces in (None, sphere.faces):
        path = tmp_path / "report.html"
        write_report(path, sphere.basis, faces=faces, limit=300)
        page = path.read_text()
        assert payload(page)["n"] <= 300
        assert "of 700 points" in page


@pytest.mark.parametrize(("n", "d", "k"), [(60, 1, 5), (60, 2, 5), (60, 7, 5), (4, 3, 2), (30, 3, 1)])
def test_any_cloud_makes_a_report(rng: np.random.Generator, tmp_path: Path, n: int, d: int, k: int) -> None:
    q = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))]))[0]
    basis = Basis(q * np.sign(q[0, 0]), np.full(n, 1 / n), np.arange(k, dtype=float), rng.normal(size=(n, d)))
    path = tmp_path / "report.html"
    write_report(path, basis.torch())
    assert payload(path.read_text())["k"] == k


def test_a_missing_or_wrong_cloud_is_told(sphere: Sphere, tmp_path: Path) -> None:
    bare = Basis(sphere.basis.normalized, sphere.basis.mass, sphere.basis.eigenvalues)
    with pytest.raises(InputError, match="needs points"):
        write_report(tmp_path / "a.html", bare)
    with pytest.raises(InputError, match="expected 700 points"):
        write_report(tmp_path / "a.html", bare, sphere.points[:5])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.browser
@pytest.mark.parametrize("mesh", [True, False])
def test_the_report_in_a_browser(sphere: Sphere, tmp_path: Path, watch: Any, mesh: bool) -> None:
    path = tmp_path / "report.html"
    write_report(path, sphere.basis, faces=sphere.faces if mesh else None, title="sphere", facts={"method": "exact"})
    seen = watch(path.as_uri())
    seen.page.wait_for_selector(READY, timeout=60_000)
    seen.page.wait_for_timeout(300)
    first = seen.pixels("#scene")
    assert first.std() > 0.05
    # The slider changes the colours of the shape, and the readout follows.
    seen.page.locator("#slider").fill("7")
    seen.page.wait_for_timeout(300)
    assert np.abs(seen.pixels("#scene") - first).mean() > 0.02
    assert "φ₇" in seen.page.inner_text("#name")
    assert "λ = 6" in seen.page.inner_text("#value")
    seen.page.click("[data-mode=mass]")
    assert "mass" in seen.page.inner_text("#name")
    # One harmonic collapses the sphere to its centre; four restore it.
    seen.page.click("[data-mode=rebuild]")
    areas = []
    for k in ("1", "4"):
        seen.page.locator("#slider").fill(k)
        seen.page.wait_for_timeout(300)
        areas.append(seen.pixels("#scene").std())
    assert areas[1] > areas[0]
    # Turning it changes the picture; charts are there.
    seen.page.click("[data-mode=vector]")
    seen.page.wait_for_timeout(200)
    before = seen.pixels("#scene")
    box = seen.page.locator("#scene").bounding_box()
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "point" in seen.page.inner_text("#tip")
    seen.page.mouse.down()
    seen.page.mouse.move(box["x"] + box["width"] / 2 + 150, box["y"] + box["height"] / 2 + 20)
    seen.page.mouse.up()
    seen.page.wait_for_timeout(300)
    assert np.abs(seen.pixels("#scene") - before).mean() > 0.02
    assert seen.page.locator("#spectrum .scatterlayer").count() == 1
    assert seen.problems == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.browser
def test_dark_narrow_and_without_webgl(tmp_path: Path, watch: Any) -> None:
    sphere = make_sphere(300, 9)
    path = tmp_path / "report.html"
    write_report(path, sphere.basis, faces=sphere.faces)
    no_webgl = """
        const original = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            return kind.startsWith("webgl") ? null : original.call(this, kind, ...rest);
        };"""
    seen = watch(path.as_uri(), width=390, height=800, scheme="dark", script=no_webgl)
    seen.page.wait_for_selector(READY, timeout=60_000)
    seen.page.wait_for_timeout(300)
    assert seen.pixels()[:60].mean() < 0.3  # dark page
    first = seen.pixels("#scene")
    assert first.std() > 0.05  # the sorted canvas draws where WebGL is missing
    seen.page.locator("#slider").fill("5")
    seen.page.wait_for_timeout(300)
    assert np.abs(seen.pixels("#scene") - first).mean() > 0.01
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.problems == []


def test_cut_edges_are_shown(tmp_path) -> None:
    x = np.random.default_rng(0).random((40, 3))
    q = np.linalg.qr(np.column_stack([np.ones(40), x]))[0]
    cut = np.array([[0, 1], [0, 2]])
    basis = Basis(q * np.sign(q[0, 0]), np.full(40, 1 / 40), np.arange(4.0), x, short_cuts=cut)
    write_report(tmp_path / "r.html", basis)
    data = payload((tmp_path / "r.html").read_text())
    assert data["cutEdges"] == 2 and data["cuts"][:4] == [2, 1, 1, 0]
