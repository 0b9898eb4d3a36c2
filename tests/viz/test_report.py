"""The report is one file that works alone: its numbers, its size, and how it behaves in a
browser.
"""

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
from eigenprobe.errors import EigenprobeWarning, InputError
from eigenprobe.geometry import oracle
from eigenprobe.viz.report import write_report
from eigenprobe.viz.scene import look_at

from .conftest import READY, Sphere, array, make_sphere, payload


def test_stored_numbers_are_the_basis(sphere: Sphere, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(
        path, sphere.basis, sphere.points, faces=sphere.faces, title="sphere", facts={"points": 700}
    )
    (data,) = payload(path.read_text())["shapes"]
    n, k = sphere.basis.n, sphere.basis.k
    vectors = array(data["vectors"], "<i2").reshape(k, n).T / 32767 * data["scales"]
    np.testing.assert_allclose(vectors, sphere.basis.vectors, atol=1e-4)
    positions = array(data["positions"], "<i2").reshape(n, 3) / 32767
    np.testing.assert_allclose(
        positions, sphere.points / np.linalg.norm(sphere.points, axis=1).max(), atol=2e-3
    )
    np.testing.assert_array_equal(array(data["faces"], "<u4").reshape(-1, 3), sphere.faces)
    # The four lowest harmonics hold the coordinates of a sphere exactly.
    assert data["errors"][0] > 90
    assert max(data["errors"][3:]) < 1e-5
    assert sorted(data["errors"], reverse=True) == data["errors"]
    rebuilt = vectors[:, :4] @ np.array(data["coefficients"])[:4]
    np.testing.assert_allclose(rebuilt, positions, atol=2e-3)


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
        (shape,) = payload(page)["shapes"]
        assert shape["n"] == 300 and not shape["mesh"]
        assert array(shape["faces"], "<u4").max() < 300 < len(array(shape["faces"], "<u4")) / 3
        assert "of 700 points" in page


@pytest.mark.parametrize(
    ("n", "d", "k"), [(60, 1, 5), (60, 2, 5), (60, 7, 5), (4, 3, 2), (30, 3, 1)]
)
def test_any_cloud_makes_a_report(
    rng: np.random.Generator, tmp_path: Path, n: int, d: int, k: int
) -> None:
    q = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, k - 1))]))[0]
    basis = Basis(
        q * np.sign(q[0, 0]), np.full(n, 1 / n), np.arange(k, dtype=float), rng.normal(size=(n, d))
    )
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


def test_cut_edges_are_shown(tmp_path) -> None:
    x = np.random.default_rng(0).random((40, 3))
    q = np.linalg.qr(np.column_stack([np.ones(40), x]))[0]
    cut = np.array([[0, 1], [0, 2]])
    basis = Basis(q * np.sign(q[0, 0]), np.full(40, 1 / 40), np.arange(4.0), x, short_cuts=cut)
    write_report(tmp_path / "r.html", basis)
    (data,) = payload((tmp_path / "r.html").read_text())["shapes"]
    assert data["cutEdges"] == 2 and data["cuts"][:4] == [2, 1, 1, 0]
    assert array(data["cutLines"], "<u4").tolist() == [0, 1, 0, 2]


def test_a_second_basis_has_the_signs_of_the_first(sphere: Sphere, tmp_path: Path) -> None:
    flipped = Basis(
        -sphere.basis.normalized, sphere.basis.mass, sphere.basis.eigenvalues, sphere.points
    )
    write_report(tmp_path / "r.html", sphere.basis, compare=flipped)
    first, second = payload((tmp_path / "r.html").read_text())["shapes"]
    assert (
        set(second["signs"]) == {-1}
        and np.allclose(second["cosines"], 1)
        and first["name"] == "exact"
    )
    with pytest.raises(InputError, match="the oracle needs a mesh, got a cloud"):
        write_report(tmp_path / "a.html", sphere.basis, compare="oracle")


@pytest.mark.browser
def test_a_capsule_whose_vertices_are_no_sample(tmp_path: Path, watch: Any) -> None:
    import trimesh

    mesh = trimesh.creation.capsule(height=2.0, radius=0.5)
    mesh.export(file := tmp_path / "capsule.ply")
    with pytest.warns(EigenprobeWarning, match="drawn on its faces"):
        basis = decompose(file, k=4)
    fine = mesh.subdivide_to_size(0.2)
    truth = oracle(fine.vertices, fine.faces, 4).eigenvalues[1]
    basis.report(path := tmp_path / "capsule.html")
    page = opened(path, watch).page
    assert "drawn on its faces" in page.locator(".warnings li").inner_text()
    shown = float(page.inner_text("#value").split()[2])
    assert abs(shown / truth - 1) < 0.05


@pytest.mark.browser
def test_functions_of_the_users_own(sphere: Sphere, tmp_path: Path, watch: Any) -> None:
    height, share = sphere.points[:, 2], np.arange(700) / 70
    own = {"height": height, "share": share}
    write_report(path := tmp_path / "r.html", sphere.basis, values=own, limit=500)
    (data,) = payload(path.read_text())["shapes"]
    shown = array(data["own"][1]["data"], "<i2") / 32767 * data["own"][1]["scale"]
    np.testing.assert_allclose(shown, share[data["rows"]], atol=1e-3)
    with pytest.raises(InputError, match=r"height must have shape \(700,\), got \(3,\)"):
        write_report(path, sphere.basis, values={"height": [1, 2, 3]})
    seen = opened(path, watch)
    page = seen.page
    assert changed(seen, lambda: page.click("[data-mode=own]")) > 0.005
    assert page.inner_text("#name") == "height"
    assert changed(seen, lambda: page.select_option("#own", "share")) > 0.01
    assert page.inner_text("#name") == "share" and page.inner_text("#low").startswith("0")
    assert seen.problems == []


@pytest.mark.browser
def test_what_the_page_computes_is_what_python_computes(
    sphere: Sphere, tmp_path: Path, watch: Any
) -> None:
    """Heat kernels, distances, reconstructions and filters of the page against `ep.apps`, from
    rounded vectors.
    """
    uneven = np.abs(sphere.points[:, 2]) + 0.2
    mass = uneven / uneven.sum()
    q = np.linalg.qr(
        np.sqrt(mass)[:, None] * np.column_stack([np.ones(700), sphere.points, sphere.points**3])
    )[0]
    basis = Basis(q, mass, np.array([0.0, 1.5, 2, 2.5, 7, 9, 11]), sphere.points)
    write_report(tmp_path / "r.html", basis, faces=sphere.faces)
    page = watch((tmp_path / "r.html").as_uri()).page
    page.wait_for_selector(READY, timeout=60_000)
    time = page.evaluate("window.report.shapes[0].time(0.4)")
    fields = {
        "heat kernel": apps.heat_kernel(basis, 17, time),
        "diffusion distance": apps.distance(basis, 17, "diffusion", time=time),
    }
    fields |= {
        f"{kind} distance": apps.distance(basis, 17, kind) for kind in ("commute", "biharmonic")
    }
    for name, expected in fields.items():
        page.evaluate(
            "(name) => window.report.set({ mode: 'point', field: name, point: 17 })", name
        )
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
        page.evaluate(
            "(choice) => window.report.set({ mode: 'rebuild', detail: 0, reach: 0.4, ...choice })",
            choice,
        )
        outside, coefficients = choice.get("detail", 0.0), basis.vectors.T @ (mass[:, None] * unit)
        expected = basis.vectors @ (gain[:, None] * coefficients) + outside * (
            unit - basis.vectors @ coefficients
        )
        shown = np.array(
            page.evaluate("[...window.report.rebuilt(window.report.shapes[0])]")
        ).reshape(-1, 3)
        np.testing.assert_allclose(shown, expected, atol=2e-3)
        moved = 100 * np.sqrt((mass[:, None] * (expected - unit) ** 2).sum())
        assert (
            abs(page.evaluate("window.report.moved(window.report.shapes[0])") - moved)
            < 1e-3 * moved + 1e-4
        )


def test_the_error_of_a_basis_is_in_its_report(tmp_path: Path) -> None:
    basis = decompose(make_sphere(400).points, k=6)
    write_report(path := tmp_path / "report.html", basis)
    (data,) = payload(path.read_text())["shapes"]
    np.testing.assert_allclose(data["uncertainty"]["eigenvalues"], basis.uncertainty.eigenvalues)
    np.testing.assert_allclose(data["uncertainty"]["vectors"], basis.uncertainty.vectors)
    write_report(path, Basis(basis.normalized, basis.mass, basis.eigenvalues, basis.points))
    assert "uncertainty" not in payload(path.read_text())["shapes"][0]


def opened(path: Path, watch: Any, **how: Any) -> Any:
    seen = watch(path.as_uri(), **how)
    seen.page.wait_for_selector(READY, timeout=60_000)
    seen.page.wait_for_timeout(300)
    return seen


def changed(seen: Any, act: Any) -> float:
    """How much the picture changes by an action."""
    before = seen.pixels("#scene")
    act()
    seen.page.wait_for_timeout(300)
    return float(np.abs(seen.pixels("#scene") - before).mean())


@pytest.mark.browser
@pytest.mark.parametrize("mesh", [True, False])
def test_the_report_in_a_browser(sphere: Sphere, tmp_path: Path, watch: Any, mesh: bool) -> None:
    faces, facts = sphere.faces if mesh else None, {"method": "exact", "warnings": ["2 parts"]}
    write_report(path := tmp_path / "report.html", sphere.basis, faces=faces, facts=facts)
    seen = opened(path, watch)
    page = seen.page
    assert page.locator(".warnings li").all_text_contents() == ["2 parts"]
    assert seen.pixels("#scene").std() > 0.05
    # The slider changes the colours of the shape, and the readout follows.
    assert changed(seen, lambda: page.locator("#slider").fill("7")) > 0.02
    assert page.inner_text("#name") == "φ₇" and "λ = 6" in page.inner_text("#value")
    # Thin dark lines of equal values, on clouds too.
    assert page.evaluate("window.report.scene.lines")
    page.click("[data-mode=mass]")
    assert "mass" in page.inner_text("#name")
    # One harmonic collapses the sphere to its centre; four restore it. The original is beside it.
    page.click("[data-mode=rebuild]")
    areas = []
    for k in ("1", "4"):
        page.locator("#slider").fill(k)
        page.wait_for_timeout(300)
        areas.append(seen.pixels("#scene").std())
    assert areas[1] > areas[0] and page.inner_text("#second-name") == "original"
    # Turning it changes the picture; charts are there.
    page.click("[data-mode=vector]")
    page.wait_for_timeout(200)
    box = page.locator("#scene").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    assert "point" in page.inner_text("#tip")
    page.mouse.down()
    assert changed(seen, lambda: page.mouse.move(x + 150, y + 20)) > 0.02
    page.mouse.up()
    assert page.locator("#spectrum .scatterlayer").count() == 1
    assert seen.problems == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.browser
def test_dark_narrow_and_without_webgl(tmp_path: Path, watch: Any) -> None:
    sphere = make_sphere(300, 9)
    write_report(path := tmp_path / "report.html", sphere.basis, faces=sphere.faces)
    no_webgl = """
        const original = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            return kind.startsWith("webgl") ? null : original.call(this, kind, ...rest);
        };"""
    seen = opened(path, watch, width=390, height=800, scheme="dark", script=no_webgl)
    assert seen.pixels()[:60].mean() < 0.3  # dark page
    tops = "[...document.querySelectorAll('#tabs button:not([hidden])')].map((b) => b.offsetTop)"
    assert len(set(seen.page.evaluate(tops))) == 1, "all modes on one line"
    assert seen.pixels("#scene").std() > 0.05  # the sorted canvas draws where WebGL is missing
    assert changed(seen, lambda: seen.page.locator("#slider").fill("5")) > 0.01
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.problems == []


@pytest.mark.browser
def test_two_bases_side_by_side(sphere: Sphere, tmp_path: Path, watch: Any) -> None:
    cut = replace(sphere.basis, short_cuts=np.array([[0, 350], [5, 600]]))
    write_report(
        path := tmp_path / "r.html", cut, faces=sphere.faces, compare="oracle", title="a ball"
    )
    seen = opened(path, watch)
    page = seen.page
    assert page.inner_text("#name").split() == ["exact", "φ₂"]
    assert "|cos|" in page.inner_text("#second-value")
    stored = payload(path.read_text())["shapes"][1]
    assert np.allclose(np.diag(stored["correlation"]), stored["cosines"], atol=6e-4)
    assert page.evaluate("$('matrix').data[0].z") == stored["correlation"]
    # Eigenvalues of a sphere are repeated: their bars are marked, that of the constant is not.
    colours = page.evaluate("$('cosines').data[0].marker.color")
    assert colours[0] != colours[1] and len(set(colours[1:])) == 1
    # Colours, ranges, edges and cuts change the picture.
    for change in (
        lambda: page.select_option("#map", "grey"),
        lambda: page.locator("#range").fill("-1"),
        lambda: page.check("#wire"),
        lambda: page.click("[data-mode=cuts]"),
    ):
        assert changed(seen, change) > 0.002
    # A method that cuts nothing is not said to have cut nothing.
    assert "cuts no edges" in page.inner_text("#beside")
    page.evaluate("window.report.set({ mode: 'vector', index: 2 })")
    # Keys turn both shapes where the focus is on one, and step elsewhere.
    before = page.evaluate("window.report.scenes.map((scene) => scene.turn)")
    page.focus("#scene")
    page.keyboard.press("ArrowRight")
    after = page.evaluate("window.report.scenes.map((scene) => scene.turn)")
    for old, new in zip(before, after, strict=True):
        turned = np.reshape(new, (3, 3)) @ np.reshape(old, (3, 3)).T
        assert 0.1 < np.arccos((np.trace(turned) - 1) / 2) < 0.3
    page.evaluate("document.activeElement.blur()")
    for key, index in (("End", 16), ("Home", 1), ("ArrowRight", 2)):
        page.keyboard.press(key)
        assert page.evaluate("window.report.state.index") == index
    assert "φ₂" in page.inner_text("#said")
    # A picture of both, 2400 pixels wide; the page is as before.
    with page.expect_download() as saved:
        page.click("#shot")
    assert saved.value.suggested_filename == "a_ball.png"
    picture = imread(saved.value.path())
    assert abs(picture.shape[1] - 2400) < 3 and picture[..., :3].std() > 0.05
    # On a phone words stand above the shapes.
    page.set_viewport_size({"width": 390, "height": 844})
    for view in page.locator(".view").all():
        words, shape = (view.locator(part).bounding_box() for part in (".readout", "canvas"))
        assert words["y"] + words["height"] <= shape["y"] + 1 and shape["height"] > 200
    assert seen.problems == []


@pytest.mark.browser
def test_errors_are_bars_and_uncertain_vectors_are_pale(tmp_path: Path, watch: Any) -> None:
    basis = decompose(make_sphere(400).points, k=6)
    contrast = []
    for known in (1.0, 0.1):
        vars(basis)["uncertainty"] = Uncertainty(np.full(6, 0.1), np.full(6, known))
        write_report(path := tmp_path / "report.html", basis)
        seen = opened(path, watch)
        assert "reproducible" in seen.page.inner_text("#value")
        bars = seen.page.evaluate("document.getElementById('spectrum').data[0].error_y.array")
        np.testing.assert_allclose(bars, 0.1 * basis.eigenvalues, atol=1e-9)
        shown = seen.pixels("#scene")
        contrast.append(float((shown.max(2) - shown.min(2)).mean()))  # of colours with grey
    assert contrast[1] < 0.6 * contrast[0]
