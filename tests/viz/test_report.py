"""The report is one file that works alone: its numbers, its size, and how it behaves in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from eigenprobe import apps, decompose
from eigenprobe.basis import Basis, Uncertainty
from eigenprobe.errors import InputError
from eigenprobe.viz.report import write_report
from eigenprobe.viz.scene import look_at

from .conftest import READY, Sphere, array, make_sphere, payload


def test_stored_numbers_are_the_basis(sphere: Sphere, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, sphere.basis, sphere.points, faces=sphere.faces, title="sphere", facts={"points": 700})
    (data,) = payload(path.read_text())["shapes"]
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
        assert payload(page)["shapes"][0]["n"] <= 300
        assert "of 700 points" in page


@pytest.mark.parametrize(("n", "d", "k"), [(60, 1, 5), (60, 2, 5), (60, 7, 5), (4, 3, 2), (30, 3, 1)])
def test_any_cloud_makes_a_report(rng: np.random.Generator, tmp_path: Path, n: int, d: int, k: int) -> None:
    q = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))]))[0]
    basis = Basis(q * np.sign(q[0, 0]), np.full(n, 1 / n), np.arange(k, dtype=float), rng.normal(size=(n, d)))
    path = tmp_path / "report.html"
    write_report(path, basis.torch())
    assert payload(path.read_text())["shapes"][0]["k"] == k


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
    tops = "[...document.querySelectorAll('#tabs button:not([hidden])')].map((b) => b.offsetTop)"
    assert len(set(seen.page.evaluate(tops))) == 1, "all modes on one line"
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
    (data,) = payload((tmp_path / "r.html").read_text())["shapes"]
    assert data["cutEdges"] == 2 and data["cuts"][:4] == [2, 1, 1, 0]
    assert array(data["cutLines"], "<u4").tolist() == [0, 1, 0, 2]
    # Of a thinned cloud, the edges between the points that are shown.
    write_report(tmp_path / "r.html", basis, limit=20)
    (data,) = payload((tmp_path / "r.html").read_text())["shapes"]
    kept = [[data["rows"].index(i), data["rows"].index(j)] for i, j in cut if {i, j} <= set(data["rows"])]
    assert array(data["cutLines"], "<u4").reshape(-1, 2).tolist() == kept and data["cutEdges"] == 2


def test_a_second_basis_has_the_signs_of_the_first(sphere: Sphere, tmp_path: Path) -> None:
    flipped = Basis(-sphere.basis.normalized, sphere.basis.mass, sphere.basis.eigenvalues, sphere.points)
    write_report(tmp_path / "r.html", sphere.basis, compare=flipped)
    first, second = payload((tmp_path / "r.html").read_text())["shapes"]
    assert set(second["signs"]) == {-1} and np.allclose(second["cosines"], 1) and first["name"] == "exact"
    write_report(tmp_path / "r.html", sphere.basis, faces=sphere.faces, compare="oracle")
    _, second = payload((tmp_path / "r.html").read_text())["shapes"]
    assert second["name"] == "oracle" and abs(second["eigenvalues"][1] - 2) < 0.1
    with pytest.raises(InputError, match="the oracle needs a mesh, got a cloud"):
        write_report(tmp_path / "a.html", sphere.basis, compare="oracle")


@pytest.mark.browser
def test_what_the_page_computes_is_what_python_computes(sphere: Sphere, tmp_path: Path, watch: Any) -> None:
    """Heat kernels, distances, reconstructions and filters of the page against `ep.apps`, from rounded vectors."""
    uneven = np.abs(sphere.points[:, 2]) + 0.2
    mass = uneven / uneven.sum()
    q = np.linalg.qr(np.sqrt(mass)[:, None] * np.column_stack([np.ones(700), sphere.points, sphere.points**3]))[0]
    basis = Basis(q, mass, np.array([0.0, 1.5, 2, 2.5, 7, 9, 11]), sphere.points)
    write_report(tmp_path / "r.html", basis, faces=sphere.faces)
    page = watch((tmp_path / "r.html").as_uri()).page
    page.wait_for_selector(READY, timeout=60_000)
    time = page.evaluate("window.report.shapes[0].time(0.4)")
    fields = {
        "heat kernel": apps.heat_kernel(basis, 17, time),
        "diffusion distance": apps.distance(basis, 17, "diffusion", time=time),
    }
    fields |= {f"{kind} distance": apps.distance(basis, 17, kind) for kind in ("commute", "biharmonic")}
    for name, expected in fields.items():
        page.evaluate("(name) => window.report.set({ mode: 'point', field: name, point: 17 })", name)
        shown = np.array(page.evaluate("[...window.report.fromPoint(window.report.shapes[0], 17)]"))
        np.testing.assert_allclose(shown, expected, atol=2e-3 * np.abs(expected).max())
    camera = look_at(sphere.points)
    unit = (sphere.points - camera.centre) / camera.radius
    keep = np.arange(7)
    for choice, gain in (
        ({"response": "first k", "k": 3}, keep < 3),
        ({"response": "band", "low": 2, "k": 4}, (keep > 0) & (keep < 4)),
        ({"response": "heat", "detail": 0.5}, np.exp(-time * basis.eigenvalues)),
    ):
        page.evaluate("(choice) => window.report.set({ mode: 'rebuild', detail: 0, reach: 0.4, ...choice })", choice)
        outside, coefficients = choice.get("detail", 0.0), basis.vectors.T @ (mass[:, None] * unit)
        expected = basis.vectors @ (gain[:, None] * coefficients) + outside * (unit - basis.vectors @ coefficients)
        shown = np.array(page.evaluate("[...window.report.rebuilt(window.report.shapes[0])]")).reshape(-1, 3)
        np.testing.assert_allclose(shown, expected, atol=2e-3)
        moved = 100 * np.sqrt((mass[:, None] * (expected - unit) ** 2).sum())
        assert abs(page.evaluate("window.report.moved(window.report.shapes[0])") - moved) < 1e-3 * moved + 1e-4


@pytest.mark.browser
def test_compare_colours_edges_and_pictures(sphere: Sphere, tmp_path: Path, watch: Any) -> None:
    cut = replace(sphere.basis, short_cuts=np.array([[0, 350], [5, 600]]))
    write_report(tmp_path / "r.html", cut, faces=sphere.faces, compare="oracle", title="a ball")
    seen = watch((tmp_path / "r.html").as_uri())
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    page.wait_for_timeout(300)
    assert page.inner_text("#name").split() == ["exact", "φ₂"] and "|cos|" in page.inner_text("#second-value")
    words = page.locator(".hint .mouse").text_content()
    assert all(word in words for word in ("turn", "pan", "zoom", "reset", "← →", "click the spectrum"))
    # Words over the shape have a plate that is not see-through.
    assert (
        float(
            re.findall(
                r"[\d.]+", page.evaluate("getComputedStyle(document.querySelector('.readout')).backgroundColor")
            )[3]
        )
        > 0.5
    )
    page.set_viewport_size({"width": 390, "height": 844})  # on a phone they stand above it, and all tabs can be seen
    for view in page.locator(".view").all():
        words_box, shape_box = view.locator(".readout").bounding_box(), view.locator("canvas").bounding_box()
        assert words_box["y"] + words_box["height"] <= shape_box["y"] + 1 and shape_box["height"] > 200
    assert page.evaluate("document.querySelector('.tabs').scrollWidth <= document.querySelector('.tabs').clientWidth")
    page.set_viewport_size({"width": 1200, "height": 800})
    page.wait_for_timeout(300)
    low = page.inner_text("#low")
    changes: list[Any] = [
        lambda: page.select_option("#map", "grey"),
        lambda: page.locator("#range").fill("-1"),
        lambda: page.check("#wire"),
        lambda: page.click("[data-mode=cuts]"),
    ]
    for change in changes:
        before = seen.pixels("#scene")
        change()
        page.wait_for_timeout(250)
        assert np.abs(seen.pixels("#scene") - before).mean() > 0.002
    assert page.inner_text("#low") == "0" != low
    # Both turn together.
    before = seen.pixels("#second")
    box = page.locator("#scene").bounding_box()
    page.mouse.move(box["x"] + 150, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 230, box["y"] + 200, steps=3)
    page.mouse.up()
    assert page.evaluate("window.report.scenes[0].turn.join() === window.report.scenes[1].turn.join()")
    with page.expect_download() as saved:
        page.click("#shot")
    assert saved.value.suggested_filename == "a_ball.png"
    picture = imread(saved.value.path())
    assert picture.shape[1] > 1.9 * picture.shape[0] * box["width"] / box["height"] and picture[..., :3].std() > 0.05
    assert seen.problems == []


@pytest.mark.browser
def test_a_cloud_has_lines_and_a_clean_outline(tmp_path: Path, watch: Any) -> None:
    sphere = make_sphere(2500, 9)
    write_report(tmp_path / "r.html", sphere.basis)
    seen = watch((tmp_path / "r.html").as_uri())
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    page.wait_for_timeout(300)
    assert page.evaluate("window.report.scene.lines")
    shown = seen.pixels("#scene")
    page.evaluate("() => { const { scene } = window.report; scene.lines = false; scene.draw(); }")
    page.wait_for_timeout(300)
    without = seen.pixels("#scene")
    darker = (without - shown).max(2) > 0.08
    assert 0.002 < darker.mean() < 0.1  # thin dark lines, and nothing else
    mask = np.abs(without - without[-1, -1]).max(2) > 0.04
    mask[:80, :160] = False  # the words in the corner
    rows = np.flatnonzero(mask.sum(1) > 40)
    left, right = np.array([np.flatnonzero(mask[r])[[0, -1]] for r in rows]).T
    centre, middle = (left + right).mean() / 2, (rows[0] + rows[-1]) / 2
    radius = np.hypot(np.concatenate([left, right]) - centre, np.concatenate([rows, rows]) - middle)
    assert radius.std() / radius.mean() < 0.01
    # Reconstruction: the original beside it, the error as colours.
    page.click("[data-mode=rebuild]")
    page.wait_for_timeout(300)
    assert page.inner_text("#second-name") == "original" and page.inner_text("#middle") == "% of radius"
    # In half the width each shape fits again.
    extent = """() => {
        const s = window.report.scene, [w, h, unit] = s.fit();
        const across = [...s.project(w, h, unit, s.shape.positions)].filter((_, i) => i % 3 === 0);
        return [Math.min(...across) / w, Math.max(...across) / w];
    }"""
    low, high = page.evaluate(extent)
    assert 0 < low < 0.15 and 0.85 < high < 1
    assert seen.problems == []


def shape_of(picture: np.ndarray) -> float:
    """Width over height of what is drawn on white."""
    drawn = picture.min(2) < 0.85
    rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
    return float((columns[-1] - columns[0] + 1) / (rows[-1] - rows[0] + 1))


@pytest.mark.browser
def test_paper_keeps_the_aspect_of_two_shapes(sphere: Sphere, tmp_path: Path, watch: Any) -> None:
    write_report(tmp_path / "r.html", sphere.basis, faces=sphere.faces, compare="oracle", title="a ball")
    # Nothing is drawn again for paper: the pixels of the screen are what is printed.
    frozen = "window.ResizeObserver = class { constructor(act) { this.act = act; } observe() {} };"
    page = (seen := watch((tmp_path / "r.html").as_uri(), width=1300, height=800, script=frozen)).page
    page.wait_for_selector(READY, timeout=60_000)
    page.add_style_tag(content=".readout { display: none !important; }")
    page.evaluate("window.report.scenes.forEach((scene) => scene.draw())")
    page.set_viewport_size({"width": 760, "height": 1000})
    page.emulate_media(media="print")
    page.wait_for_timeout(300)
    for canvas in ("#scene", "#second"):
        assert abs(shape_of(seen.pixels(canvas)) - 1) < 0.02, canvas
    assert page.locator("#matrix").is_visible()


@pytest.mark.browser
def test_agreement_and_keys(sphere: Sphere, tmp_path: Path, watch: Any) -> None:
    cut = replace(sphere.basis, short_cuts=np.array([[0, 5], [7, 5]]))
    write_report(tmp_path / "r.html", cut, faces=sphere.faces, compare="oracle", title="a ball")
    page = (seen := watch((tmp_path / "r.html").as_uri())).page
    page.wait_for_selector(READY, timeout=60_000)
    stored = payload((tmp_path / "r.html").read_text())["shapes"][1]
    assert np.allclose(np.diag(stored["correlation"]), stored["cosines"], atol=6e-4)
    assert page.evaluate("$('cosines').data[0].y.length") == len(stored["cosines"])
    assert page.evaluate("$('matrix').data[0].z") == stored["correlation"]
    # A method that cuts nothing is not said to have cut nothing.
    page.evaluate("window.report.set({ mode: 'cuts' })")
    assert "0 short-cuts" not in page.inner_text("#beside") and "cuts no edges" in page.inner_text("#beside")
    page.evaluate("window.report.set({ mode: 'vector', index: 2 })")
    # Keys: the shape turns with the focus on it, both of them together; the rest of the page steps and plays.
    before = page.evaluate("window.report.scenes.map((scene) => scene.turn)")
    page.focus("#scene")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    after = page.evaluate("window.report.scenes.map((scene) => scene.turn)")
    for old, new in zip(before, after, strict=True):
        turned = np.reshape(new, (3, 3)) @ np.reshape(old, (3, 3)).T
        np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=1e-9)
        assert 0.1 < np.arccos((np.trace(turned) - 1) / 2) < 0.3
    assert page.evaluate("window.report.state.index") == 2
    page.evaluate("document.activeElement.blur()")
    for key, index in (("End", 16), ("Home", 1), ("ArrowRight", 2)):
        page.keyboard.press(key)
        assert page.evaluate("window.report.state.index") == index
    assert "φ₂" in page.inner_text("#said")
    page.keyboard.press("Space")
    assert page.evaluate("window.report.state.playing")
    assert seen.problems == []


def test_the_error_of_a_basis_is_in_its_report(tmp_path: Path) -> None:
    basis = decompose(make_sphere(400).points, k=6)
    write_report(path := tmp_path / "report.html", basis)
    (data,) = payload(path.read_text())["shapes"]
    np.testing.assert_allclose(data["uncertainty"]["eigenvalues"], basis.uncertainty.eigenvalues)
    np.testing.assert_allclose(data["uncertainty"]["vectors"], basis.uncertainty.vectors)
    write_report(path, Basis(basis.normalized, basis.mass, basis.eigenvalues, basis.points))
    assert "uncertainty" not in payload(path.read_text())["shapes"][0]


@pytest.mark.browser
def test_errors_are_bars_and_uncertain_vectors_are_pale(tmp_path: Path, watch: Any) -> None:
    basis = decompose(make_sphere(400).points, k=6)
    sure = replace(basis, info=basis.info)
    vars(sure)["uncertainty"] = Uncertainty(np.full(6, 0.1), np.ones(6))
    vars(basis)["uncertainty"] = Uncertainty(np.full(6, 0.1), np.full(6, 0.1))
    contrast = []
    for each in (sure, basis):
        write_report(path := tmp_path / "report.html", each)
        seen = watch(path.as_uri())
        seen.page.wait_for_selector(READY, timeout=60_000)
        seen.page.locator("#slider").fill("2")
        seen.page.wait_for_timeout(300)
        assert "reproducible" in seen.page.inner_text("#value")
        bars = seen.page.evaluate("document.getElementById('spectrum').data[0].error_y.array")
        np.testing.assert_allclose(bars, 0.1 * basis.eigenvalues, atol=1e-9)
        shown = seen.pixels("#scene")[..., :3]
        contrast.append(float((shown.max(2) - shown.min(2)).mean()))  # of colours with grey
        assert seen.problems == []
    assert contrast[1] < 0.6 * contrast[0]
