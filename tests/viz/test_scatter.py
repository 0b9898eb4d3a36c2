"""The map of embeddings: its numbers, its colours, and what a person does with it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from eigenprobe import Eigenmaps
from eigenprobe.errors import InputError
from eigenprobe.viz.scatter import write_scatter

from .conftest import READY, array, payload

CLASSES = 30


def islands() -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Embedding (600, 12), layout (600, 2), labels and texts: 30 groups of 20 rows on a 6 x 5
    grid.
    """
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), 20)
    layout = np.stack([labels % 6, labels // 6], 1) + 0.08 * rng.normal(size=(600, 2))
    x = np.column_stack([layout, 0.05 * rng.normal(size=(600, 10))])
    return x, layout, labels, [f"sentence {i} <b>" for i in range(600)]


def hundred() -> tuple[np.ndarray, np.ndarray]:
    """An embedding (2000, 100) of 100 groups of 20 rows, and the names of their classes."""
    names = np.array([f"{'long ' * (i % 3)}name {i:02d}" for i in range(100)])
    codes = np.repeat(np.arange(100), 20)
    noise = np.random.default_rng(0).normal(size=(2000, 100))
    return np.eye(100)[codes] + 0.02 * noise, names[codes]


def written(path: Path, *given: Any, **options: Any) -> dict[str, Any]:
    write_scatter(path / "map.html", *given, **options)
    return payload((path / "map.html").read_text())


def test_stored_numbers_are_the_embedding(tmp_path: Path) -> None:
    x, layout, labels, _ = islands()
    names, height = [f"class {i}" for i in range(CLASSES)], layout[:, 1]
    more: Any = {"new": x[:7], "new_layout": layout[:7], "values": {"h": height}}
    data = written(tmp_path, x, labels, names, layout=layout, **more)
    np.testing.assert_allclose(array(data["coordinates"], "<f4").reshape(600, 12), x, rtol=1e-6)
    np.testing.assert_allclose(array(data["layout"], "<f4").reshape(600, 2), layout, rtol=1e-6)
    placed = array(data["new"]["layout"], "<f4").reshape(7, 2)
    np.testing.assert_allclose(placed, layout[:7], rtol=1e-6)
    first, second = data["colourings"]
    assert first["classes"] == names
    assert array(first["codes"], "<u2").tolist() == labels.tolist()
    np.testing.assert_allclose(array(second["values"], "<f4"), height, rtol=1e-6)
    # Numbers as labels are numbers, unless they are few.
    assert "values" in written(tmp_path, x, height)["colourings"][0]
    few = written(tmp_path, x, (height > 1).astype(float))["colourings"][0]
    assert few["classes"] == ["0.0", "1.0"]
    # Many rows are thinned.
    assert written(tmp_path, x, labels, layout=layout, limit=50)["n"] == 50


def test_wrong_tables_are_told(tmp_path: Path) -> None:
    x, layout, _, _ = islands()
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"labels must have shape \(600,\), got \(2,\)", {"labels": [1, 2]}),
        ("expected 600 texts, got 1", {"texts": ["a"]}),
        (r"layout must have shape \(600, k\)", {"layout": layout[:5]}),
        ("layout must have two or three columns, got 12", {"layout": x}),
        (r"new must have shape \(n, 12\)", {"new": x[:, :3]}),
        (r"h must have shape \(600,\)", {"values": {"h": [1.0]}}),
        ("expected 600 images, got 2", {"images": [x, x]}),
        ("nothing.png", {"images": ["nothing.png"] * 600}),
    ]
    for match, options in wrong:
        with pytest.raises(InputError, match=match):
            write_scatter(tmp_path / "a.html", x, **options)
    assert list(tmp_path.iterdir()) == []


def test_without_labels_groups_are_found(tmp_path: Path) -> None:
    x, labels = hundred()
    x, labels = x[:120], labels[:120]  # six groups
    data = written(tmp_path, x, texts=[f"row of {name}" for name in labels])
    (found,) = data["colourings"]
    codes = array(found["codes"], "<u2")
    assert found["name"] == "group" and len(found["classes"]) == 6
    for code, rows in enumerate(found["typical"]):
        assert len(set(labels[codes == code])) == 1
        assert len(rows) == 3 and (codes[rows] == code).all()
        assert found["classes"][code] == f"group {code + 1}: row of {labels[rows[0]]}"
    # A table without a layout is drawn at its coordinates.
    assert written(tmp_path, x, labels)["layout"] is None


@pytest.mark.filterwarnings("ignore::eigenprobe.EigenprobeWarning")
def test_page_and_plot_of_an_estimator_have_the_same_colours(tmp_path: Path) -> None:
    x, labels = hundred()
    model = Eigenmaps(6, random_state=0, map_dimensions=3).fit(x[:240])
    for given in (labels[:240], None):  # twelve classes, and the groups found
        model.report(tmp_path / "map.html", given, title="twelve")
        data = payload((tmp_path / "map.html").read_text())
        (shown,) = data["colourings"]
        legend = model.plot(given, path=tmp_path / "map.png").legends[0]
        assert [text.get_text() for text in legend.get_texts()] == shown["classes"]
        assert [to_hex(each.get_facecolor()) for each in legend.get_patches()] == shown["colours"]
    assert data["across"] == 3 and len(data["eigenvalues"]) == 6 and data["title"] == "twelve"
    drawn = array(data["layout"], "<f4").reshape(240, 3)
    np.testing.assert_allclose(drawn, model.layout_, rtol=1e-5, atol=1e-5)


def place(page: Any, row: int) -> tuple[float, float]:
    """Where a row is on the screen."""
    return page.evaluate(
        """(row) => {
        const chart = document.getElementById("scatter"), box = chart.getBoundingClientRect();
        const { xaxis: x, yaxis: y } = chart._fullLayout;
        const [{ customdata, x: xs, y: ys }] = chart.data;
        const i = customdata.indexOf(row);
        return [box.left + x._offset + x.l2p(xs[i]), box.top + y._offset + y.l2p(ys[i])];
    }""",
        row,
    )


def lasso(page: Any, x: float, y: float, reach: float) -> None:
    """Draw a square around a place."""
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]
    page.mouse.move(x - reach, y - reach)
    page.mouse.down()
    for a, b in corners[1:]:
        page.mouse.move(x + a * reach, y + b * reach, steps=4)
    page.mouse.up()


@pytest.mark.browser
def test_the_map_in_a_browser(tmp_path: Path, watch: Any) -> None:
    x, layout, labels, texts = islands()
    names = [f"class {i:02d}" for i in range(CLASSES)]
    more: Any = {"texts": texts, "values": {"height": layout[:, 1]}, "eigenvalues": [1.0, 2.0]}
    more |= {"new": x[:5] + 0.2, "new_layout": layout[:5] + 0.2, "facts": {"warnings": ["beware"]}}
    write_scatter(path := tmp_path / "map.html", x, labels, names, layout=layout, **more)
    seen = watch(path.as_uri(), width=1400, height=900)
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    assert page.locator(".warnings li").all_text_contents() == ["beware"]
    # Labels by name in the list, as people count, and on the map.
    assert page.locator("#classes .entry span").all_text_contents() == names
    assert sorted(page.locator("#scatter .annotation-text").all_text_contents()) == names
    # Hover tells the label and the text, as text.
    page.mouse.move(*place(page, 333))
    hover = page.locator("#scatter .hovertext").text_content(timeout=5000)
    assert names[labels[333]] in hover and "sentence 333 <b>" in hover
    # A click lists the nearest rows in all coordinates.
    page.mouse.click(*place(page, 333))
    page.wait_for_selector("#picked .entry")
    picked, *neighbours = page.evaluate("[window.map.state.picked, ...window.map.state.neighbours]")
    assert neighbours == np.argsort(np.linalg.norm(x - x[picked], axis=1))[1:11].tolist()
    # Search raises what is found, by label, by text, by row; it can be saved.
    for wanted, count in (("sentence 599", 1), ("599", 1), ("class 07", 20)):
        page.fill("#find", wanted)
        page.wait_for_function(f"$('save').textContent === 'Save {count} rows'")
    with page.expect_download() as saved:
        page.click("#save")
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[:2] == ['row,"label",text', '140,"class 07","sentence 140 <b>"']
    assert len(lines) == 21
    page.fill("#find", "")
    page.wait_for_function("window.map.state.found === null")
    # The toolbar stays on one row, whatever it shows.
    page.select_option("#axes", "coordinates2")
    middles = """[...document.querySelectorAll('.controls.top > :not([hidden]):not(.push)')]
        .map((e) => e.getBoundingClientRect()).filter((b) => b.width)
        .map((b) => Math.round((b.top + b.bottom) / 2))"""
    assert np.ptp(page.evaluate(middles)) <= 2
    page.select_option("#axes", "layout2")
    # Numbers get a ramp and a bar.
    page.select_option("#by", "1")
    assert page.is_visible("#bar") and page.inner_text("#middle") == "height"
    page.select_option("#by", "0")
    page.wait_for_timeout(300)
    # Around one island with the lasso: its twenty rows; around nothing: they stay.
    (left, top), (right, _) = place(page, 0), place(page, 30)  # neighbours in a row
    reach = 0.42 * abs(right - left)
    page.click("#lasso")
    lasso(page, left, top, reach)
    page.wait_for_function("window.map.state.marked?.size > 0")
    page.click("#lasso")
    lasso(page, (left + right) / 2, top, 3)
    page.wait_for_timeout(300)
    assert sorted(page.evaluate("[...window.map.state.marked]")) == list(range(20))
    # New rows can be drawn or not; three coordinates turn in space; the card fills the screen.
    diamonds = "$('scatter').data.some((t) => t.marker?.symbol === 'diamond-open')"
    assert page.evaluate(diamonds)
    page.uncheck("#new")
    assert not page.evaluate(diamonds)
    page.select_option("#axes", "coordinates3")
    assert page.evaluate("$('scatter').data[0].type") == "scatter3d"
    page.click("#full")
    page.wait_for_function("document.fullscreenElement?.id === 'map'")
    assert seen.problems == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.browser
def test_pictures_and_the_table_of_a_map(tmp_path: Path, watch: Any) -> None:
    x, layout, labels, texts = islands()
    shades = np.linspace(0, 1, 600)
    write_scatter(
        path := tmp_path / "map.html",
        x,
        labels % 3,
        layout=layout,
        texts=texts,
        values={"height": layout[:, 1]},
        images=[np.full((4, 6, 3), 255 * shade) * [1, 0, 0] for shade in shades + 0.01],
    )
    seen = watch(path.as_uri(), width=1400, height=900)
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    # The table has a column of everything; filters narrow the map, and a row that is clicked is
    # picked.
    heads = page.locator("#heads th").all_text_contents()
    assert heads == ["row", "label", "height", "text"]
    assert page.inner_text("#table-title") == "600 rows, the first 100 shown"
    boxes = page.locator("#heads input")
    boxes.nth(1).fill("2")
    boxes.nth(2).fill("1.5..2.5")
    wanted = np.flatnonzero((labels % 3 == 2) & (layout[:, 1] >= 1.5) & (layout[:, 1] <= 2.5))
    page.wait_for_function(f"window.map.state.found?.size === {len(wanted)}")
    assert sorted(page.evaluate("[...window.map.state.found]")) == wanted.tolist()
    assert page.locator("#rows tr").count() == len(wanted)
    boxes.nth(3).fill(f"sentence {wanted[3]} <b>")
    page.wait_for_function("window.map.state.found?.size === 1")
    page.locator("#rows tr").click()
    assert page.evaluate("window.map.state.picked") == wanted[3]
    boxes.nth(3).fill("")
    boxes.nth(2).fill("> 4")
    page.wait_for_function("[...window.map.state.found].every((i) => i > 400)")
    boxes.nth(2).fill("")
    boxes.nth(1).fill("")
    page.wait_for_function("window.map.state.found === null")
    # A picture on hover, which keeps its sides, and pictures for points where few are in view.
    page.mouse.move(*place(page, 480))
    page.wait_for_selector("#thumb canvas")
    middle, edge = (
        page.evaluate(
            f"[...$('thumb').firstChild.getContext('2d').getImageData(96, {y}, 1, 1).data]"
        )
        for y in (96, 2)
    )
    assert abs(middle[0] - 255) < 9 and middle[1] < 9 and min(edge) > 240
    assert page.evaluate("window.map.state.tiles") == 0
    view = "{ 'xaxis.range': [-0.5, 1.5], 'yaxis.range': [-0.5, 1.5] }"
    page.evaluate(f"Plotly.relayout('scatter', {view})")
    page.wait_for_function("window.map.state.tiles > 0")
    assert page.evaluate("window.map.state.tiles") == 80  # of four islands
    assert seen.problems == []


@pytest.mark.browser
def test_the_map_on_a_phone_and_in_space(tmp_path: Path, watch: Any) -> None:
    x, layout, labels, _ = islands()
    deep = np.column_stack([layout, labels % 3])
    write_scatter(tmp_path / "map.html", x, labels % 4, layout=deep)
    seen = watch((tmp_path / "map.html").as_uri(), width=390, height=800, scheme="dark")
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    page.wait_for_timeout(400)
    assert page.evaluate("$('scatter').data[0].type") == "scatter3d"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "tap a point" in page.locator("#hint").inner_text()
    assert seen.pixels()[:60].mean() < 0.3  # dark page
    assert seen.pixels("#scatter").std() > 0.05
    page.select_option("#axes", "layout2")
    page.wait_for_function("$('scatter').layout.annotations?.length === 4")
    assert page.locator("#classes .entry span").all_text_contents() == ["0", "1", "2", "3"]
    assert seen.problems == []


def overlaps(boxes: list[Any]) -> int:
    """How many pairs of words share more than a pixel: boxes of lines are higher than letters."""
    left, top, width, height = np.array(
        [[b["x"], b["y"], b["width"], b["height"]] for b in boxes]
    ).T
    ends = ((left, left + width), (top + 5, top + height - 5))
    shared = [np.minimum(b[:, None], b) - np.maximum(a[:, None], a) > 1 for a, b in ends]
    return int(np.triu(shared[0] & shared[1], 1).sum())


def crossed(page: Any, boxes: list[Any]) -> int:
    """How many lines go through the words of another name."""
    ends = page.evaluate(
        """() => { const { xaxis, yaxis, _size, annotations } = $("scatter")._fullLayout;
        const { x, y } = $("scatter").getBoundingClientRect();
        return annotations.map((a) => { const at = [x + _size.l + xaxis.l2p(a.x), y + _size.t +
        yaxis.l2p(a.y)]; return [at, [at[0] + a.ax, at[1] + a.ay]]; }); }"""
    )
    share = np.linspace(0, 1, 400)[:, None]
    count = 0
    for i, (point, name) in enumerate(np.array(ends)):
        line = (1 - share) * point + share * name
        for j, b in enumerate(boxes):
            low = np.array([b["x"] + 1, b["y"] + 5])
            high = low + [b["width"] - 2, b["height"] - 10]
            count += i != j and bool(((line > low) & (line < high)).all(1).any())
    return count


@pytest.mark.browser
def test_77_long_names_have_their_lines_and_do_not_overlap(tmp_path: Path, watch: Any) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(77, size=4000)
    x = (rng.normal(size=(77, 2)) * [10, 8])[labels] + 0.5 * rng.normal(size=(4000, 2))
    names = [f"a rather long intent number {i}" for i in range(77)]
    write_scatter(path := tmp_path / "map.html", x, labels, names, title="long names")
    seen = watch(path.as_uri(), width=1400, height=900)
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    texts = page.locator("#scatter .annotation-text").all()
    assert len(texts) == page.locator("#scatter .annotation-arrow-g path").count() == 77
    boxes = [text.bounding_box() for text in texts]
    chart = page.locator("#scatter").bounding_box()
    assert overlaps(boxes) == 0 and crossed(page, boxes) == 0
    assert all(chart["x"] <= b["x"] for b in boxes)
    assert all(b["x"] + b["width"] <= chart["x"] + chart["width"] for b in boxes)
    # A picture of a chosen width has the legend.
    page.fill("#width", "1000")
    with page.expect_download() as saved:
        page.click("#png")
    saved.value.save_as(file := tmp_path / "map.png")
    assert saved.value.suggested_filename == "long_names.png"
    picture = imread(file)
    assert abs(picture.shape[1] - 1000) <= 2 and picture.shape[0] > 1000
    with page.expect_download() as saved:
        page.click("#svg")
    saved.value.save_as(file := tmp_path / "map.svg")
    assert file.read_text().count("a rather long intent") > 60
    # On paper: dots without WebGL, all of the map and of the list.
    page.set_viewport_size({"width": 720, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function("$('scatter').data[0].type === 'scatter'")
    page.wait_for_timeout(300)
    assert page.evaluate("$('scatter')._fullLayout.width <= innerWidth")
    assert page.evaluate("document.querySelectorAll('#scatter .points path').length") == 4000
    assert page.evaluate("$('classes').scrollHeight <= $('classes').clientHeight + 1")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function("$('scatter').data[0].type === 'scattergl'")
    assert seen.problems == []


@pytest.mark.browser
def test_search_zooms_and_zooming_shows_more_names(tmp_path: Path, watch: Any) -> None:
    x, labels = hundred()
    codes = np.repeat(np.arange(100), 20)
    layout = np.stack([codes % 10, codes // 10], 1) + 0.05 * x[:, :2]
    write_scatter(path := tmp_path / "map.html", x, labels, layout=layout)
    page = watch(path.as_uri(), width=1400, height=900).page
    page.wait_for_selector(READY, timeout=60_000)
    shown = page.locator("#scatter .annotation-text").all_text_contents()
    assert len(shown) >= 80 and set(shown) <= set(labels)
    whole = page.evaluate("$('scatter')._fullLayout.xaxis.range")
    page.fill("#find", "long name 43")
    page.wait_for_function(
        "window.map.state.found?.size === 20 && $('scatter').layout.annotations.length === 1"
    )
    near = page.evaluate("$('scatter')._fullLayout.xaxis.range")
    assert near[1] - near[0] < 0.3 * (whole[1] - whole[0])
    assert page.locator("#classes .entry").count() == 1
    page.fill("#find", "")
    page.wait_for_function("$('scatter').layout.annotations.length >= 80")
    again = page.evaluate("$('scatter')._fullLayout.xaxis.range")
    np.testing.assert_allclose(again, whole, atol=0.02 * (whole[1] - whole[0]))
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(400), 5)
    x = rng.uniform(size=(400, 2))[codes] + 0.003 * rng.normal(size=(2000, 2))
    write_scatter(path, x, [f"a long name of class {c}" for c in codes])
    page = watch(path.as_uri(), width=1400, height=900).page
    page.wait_for_selector(READY, timeout=60_000)
    inside = """() => $("scatter")._fullLayout.annotations.filter(({ x, y }) =>
        x > 0.4 && x < 0.6 && y > 0.2 && y < 0.8).length"""
    before = page.evaluate(inside)
    near_view = "{ 'xaxis.range': [0.4, 0.6], 'yaxis.range': [0.2, 0.8] }"
    page.evaluate(f"Plotly.relayout('scatter', {near_view})")
    page.wait_for_function(f"({inside})() > {before}")


@pytest.mark.browser
def test_200_000_rows_are_all_drawn(tmp_path: Path, watch: Any) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(40, size=200_000)
    x = (8 * rng.normal(size=(40, 2)))[labels] + rng.normal(size=(200_000, 2))
    write_scatter(path := tmp_path / "map.html", x, labels)
    assert path.stat().st_size < 8e6
    seen = watch(path.as_uri(), width=1400, height=900)
    seen.page.wait_for_selector(READY, timeout=120_000)
    assert seen.page.evaluate("$('scatter').data[0].x.length") == 200_000
    assert seen.problems == []
