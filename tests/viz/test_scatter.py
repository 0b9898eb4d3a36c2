"""The map of embeddings: its numbers, its colours, and what a person does with it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenprobe.errors import InputError
from eigenprobe.viz.scatter import write_scatter

from .conftest import READY, array, payload

CLASSES = 30


def islands(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Embedding (600, 12), layout (600, 2), labels and texts: 30 groups of 20 rows on a 6 x 5 grid."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(CLASSES), 20)
    centres = np.stack([labels % 6, labels // 6], 1).astype(float)
    layout = centres + 0.08 * rng.normal(size=(600, 2))
    x = np.column_stack([layout, 0.05 * rng.normal(size=(600, 10))])
    return x, layout, labels, [f"sentence {i} <b>" for i in range(600)]


def test_stored_numbers_are_the_embedding(tmp_path: Path) -> None:
    x, layout, labels, _texts = islands()
    path = tmp_path / "map.html"
    names = [f"class {i}" for i in range(CLASSES)]
    height = layout[:, 1]
    write_scatter(path, x, labels, names, layout=layout, new=x[:7], new_layout=layout[:7], values={"h": height})
    data = payload(path.read_text())
    np.testing.assert_allclose(array(data["coordinates"], "<f4").reshape(600, 12), x, rtol=1e-6)
    np.testing.assert_allclose(array(data["layout"], "<f4").reshape(600, 2), layout, rtol=1e-6)
    np.testing.assert_allclose(array(data["new"]["layout"], "<f4").reshape(7, 2), layout[:7], rtol=1e-6)
    first, second = data["colourings"]
    assert [first["classes"][c] for c in array(first["codes"], "<u2")] == [names[i] for i in labels]
    np.testing.assert_allclose(array(second["values"], "<f4"), height, rtol=1e-6)
    # Numbers as labels are numbers, unless they are few.
    write_scatter(path, x, height)
    assert "values" in payload(path.read_text())["colourings"][0]
    write_scatter(path, x, (height > 1).astype(float))
    assert payload(path.read_text())["colourings"][0]["classes"] == ["0.0", "1.0"]


def test_hover_texts_are_html_to_plotly_and_so_escaped(tmp_path: Path) -> None:
    write_scatter(tmp_path / "map.html", np.eye(2), texts=["<script>alert(1)</script>", "a&b"])
    texts = payload((tmp_path / "map.html").read_text())["texts"]
    assert texts == ["&lt;script&gt;alert(1)&lt;/script&gt;", "a&amp;b"]


def test_near_classes_have_near_hues_and_no_two_the_same_colour(tmp_path: Path) -> None:
    x, layout, labels, _ = islands()
    write_scatter(tmp_path / "map.html", x, labels, layout=layout)
    (first,) = payload((tmp_path / "map.html").read_text())["colourings"]
    assert len(set(first["colours"])) == CLASSES
    order = np.array([int(name) for name in first["classes"]])  # hues go once around in this order
    centres = np.stack([order % 6, order // 6], 1)
    steps = np.abs(np.diff(centres, axis=0)).sum(1)
    shuffled = np.abs(centres[:, None] - centres[None]).sum(2).mean()
    assert steps.mean() < 0.5 * shuffled  # along the list one walks from neighbour to neighbour


def test_wrong_tables_are_told(tmp_path: Path) -> None:
    x, layout, _labels, _texts = islands()
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"labels must have shape \(600,\), got \(2,\)", {"labels": [1, 2]}),
        ("expected 600 texts, got 1", {"texts": ["a"]}),
        (r"layout must have shape \(600, k\)", {"layout": layout[:5]}),
        ("layout must have two or three columns, got 12", {"layout": x}),
        (r"new must have shape \(n, 12\)", {"new": x[:, :3]}),
        (r"h must have shape \(600,\)", {"values": {"h": [1.0]}}),
    ]
    for match, options in wrong:
        with pytest.raises(InputError, match=match):
            write_scatter(tmp_path / "a.html", x, **options)
    assert list(tmp_path.iterdir()) == []


def place(page: Any, row: int) -> tuple[float, float]:
    """Where a row is on the screen."""
    return page.evaluate(
        """(row) => {
        const chart = document.getElementById("scatter"), box = chart.getBoundingClientRect();
        const { xaxis: x, yaxis: y } = chart._fullLayout, trace = chart.data[0], i = trace.customdata.indexOf(row);
        return [box.left + x._offset + x.l2p(trace.x[i]), box.top + y._offset + y.l2p(trace.y[i])];
    }""",
        row,
    )


@pytest.mark.browser
def test_the_map_in_a_browser(tmp_path: Path, watch: Any) -> None:
    x, layout, labels, texts = islands()
    names = [f"class {i:02d}" for i in range(CLASSES)]
    path = tmp_path / "map.html"
    write_scatter(
        *(path, x, labels, names, "islands"),
        layout=layout,
        texts=texts,
        values={"height": layout[:, 1]},
        eigenvalues=[1.0, 2.0],
        new=x[:5] + 0.2,
        new_layout=layout[:5] + 0.2,
    )
    seen = watch(path.as_uri())
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    # Labels by name in the list and on the map.
    entries = page.locator("#classes .entry span").all_text_contents()
    assert len(entries) == CLASSES and {entry.split("  ")[1] for entry in entries} == set(names)
    centres = page.locator("#scatter .annotation-text").all_text_contents()
    assert sorted(centres) == names
    # Hover tells the label and the text, as text.
    page.mouse.move(*place(page, 333))
    hover = page.locator("#scatter .hovertext").text_content(timeout=5000)
    assert names[labels[333]] in hover and "sentence 333 <b>" in hover
    # A click lists the nearest rows in all coordinates.
    page.mouse.click(*place(page, 333))
    page.wait_for_selector("#picked .entry")
    picked, *neighbours = page.evaluate("[window.map.state.picked, ...window.map.state.neighbours]")
    distances = np.linalg.norm(x - x[picked], axis=1)
    assert neighbours == np.argsort(distances)[1:11].tolist()
    assert page.locator("#picked .entry").count() == 11
    # Search raises what is found, by label, by text, by row; it can be saved.
    for wanted, count in (("class 07", 20), ("sentence 599", 1), ("599", 1)):
        page.fill("#find", wanted)
        page.wait_for_function(f"document.getElementById('save').textContent === 'Save {count} rows'")
    assert page.evaluate("window.map.state.found.has(599)")
    raised = page.evaluate("document.getElementById('scatter').data[1].marker.size")
    assert raised > page.evaluate("document.getElementById('scatter').data[0].marker.size")
    page.fill("#find", "class 07")
    page.wait_for_function("window.map.state.found?.size === 20")
    with page.expect_download() as saved:
        page.click("#save")
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0] == 'row,"label",text' and lines[1] == '140,"class 07","sentence 140 <b>"' and len(lines) == 21
    page.fill("#find", "")
    page.wait_for_function("window.map.state.found === null")
    # Numbers get a ramp and a bar.
    page.select_option("#by", "1")
    assert page.is_visible("#bar") and page.inner_text("#middle") == "height" and page.is_hidden("#classes-card")
    page.select_option("#by", "0")
    # Around one island with the lasso: its twenty rows, and no others.
    (left, top), (right, _bottom) = place(page, 0), place(page, 30)  # labels 0 and 1 are neighbours in a row
    reach = 0.42 * abs(right - left)
    page.click("#lasso")
    corners = [(left + a * reach, top + b * reach) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))]
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=4)
    page.mouse.up()
    page.wait_for_function("window.map.state.marked?.size > 0")
    assert sorted(page.evaluate("[...window.map.state.marked]")) == list(range(20))
    # New rows can be drawn or not; three coordinates turn in space.
    assert page.evaluate("document.getElementById('scatter').data.some((t) => t.marker?.symbol === 'diamond-open')")
    page.uncheck("#new")
    assert not page.evaluate("document.getElementById('scatter').data.some((t) => t.marker?.symbol === 'diamond-open')")
    page.select_option("#axes", "coordinates3")
    assert page.evaluate("document.getElementById('scatter').data[0].type") == "scatter3d"
    assert seen.problems == []
    assert [url for url in seen.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.browser
def test_the_map_on_a_phone_and_in_space(tmp_path: Path, watch: Any) -> None:
    x, layout, labels, _ = islands()
    deep = np.column_stack([layout, labels % 3])
    write_scatter(tmp_path / "map.html", x, labels % 4, layout=deep)
    seen = watch((tmp_path / "map.html").as_uri(), width=390, height=800, scheme="dark")
    seen.page.wait_for_selector(READY, timeout=60_000)
    seen.page.wait_for_timeout(400)
    assert seen.page.evaluate("document.getElementById('scatter').data[0].type") == "scatter3d"
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "tap a point" in seen.page.locator("#hint").inner_text()
    assert "scroll" not in seen.page.locator("#hint").inner_text()
    assert seen.pixels()[:60].mean() < 0.3  # dark page
    assert seen.pixels("#scatter").std() > 0.05
    seen.page.select_option("#axes", "layout2")
    assert seen.page.locator("#scatter .annotation-text").all_text_contents() == ["0", "1", "2", "3"]
    assert seen.page.locator("#classes .entry span").all_text_contents() == ["0", "1", "2", "3"]
    assert seen.problems == []


@pytest.mark.browser
def test_names_at_the_centres_do_not_cover_each_other(tmp_path: Path, watch: Any) -> None:
    rng = np.random.default_rng(0)
    x, kinds = rng.normal(size=(400, 2)), np.array(["automobile", "aeroplane", "lorry", "ship"])[np.arange(400) % 4]
    write_scatter(tmp_path / "a.html", x, kinds)
    page = watch((tmp_path / "a.html").as_uri()).page
    page.wait_for_selector(READY, timeout=60_000)
    page.wait_for_selector("#scatter .annotation-text")
    boxes = [text.bounding_box() for text in page.locator("#scatter .annotation-text").all()]
    assert len(boxes) == 4
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            across = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
            assert across <= 0 or abs(a["y"] - b["y"]) >= 13, (a, b)  # letters of 13 pixels
    tight = np.repeat(rng.normal(size=(4, 2)) * 9, 100, 0) + 1e-3 * x  # a name above such a cluster, not on it
    write_scatter(tmp_path / "b.html", tight, np.repeat(["a", "b", "c", "d"], 100))
    page = watch((tmp_path / "b.html").as_uri()).page
    page.wait_for_selector("#scatter .annotation-text", timeout=60_000)
    middle = "(({ annotations, yaxis, _size }) => annotations.map((a) => yaxis.d2p(a.y) + _size.t))"
    middle += "($('scatter')._fullLayout)"
    top = page.locator("#scatter").bounding_box()["y"]
    for text, y in zip(page.locator("#scatter .annotation-text").all(), page.evaluate(middle), strict=True):
        box = text.bounding_box()
        assert 0 < y + top - box["y"] - box["height"] < 12


def overlaps(boxes: list[Any]) -> int:
    """How many pairs of boxes share more than a pixel of width and height."""
    count = 0
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            across = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
            down = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
            count += across > 1 and down > 1
    return count


def hundred() -> tuple[np.ndarray, np.ndarray]:
    """An embedding (2000, 100) of 100 groups of 20 rows, and the names of their classes."""
    names = np.array([f"{'long ' * (i % 3)}name {i:02d}" for i in range(100)])
    codes = np.repeat(np.arange(100), 20)
    return np.eye(100)[codes] + 0.02 * np.random.default_rng(0).normal(size=(2000, 100)), names[codes]


@pytest.mark.browser
def test_a_hundred_names_on_the_default_map(tmp_path: Path, watch: Any) -> None:
    x, labels = hundred()
    write_scatter(path := tmp_path / "map.html", x, labels)
    seen = watch(path.as_uri(), width=1400, height=900)
    page = seen.page
    page.wait_for_selector(READY, timeout=60_000)
    assert page.input_value("#axes") == "layout2"  # a map, although none was given
    texts = page.locator("#scatter .annotation-text")
    words, boxes = texts.all_text_contents(), [text.bounding_box() for text in texts.all()]
    assert len(set(words) & set(labels)) >= 40 and overlaps(boxes) == 0
    chart = page.locator("#scatter").bounding_box()
    assert all(chart["x"] <= b["x"] and b["x"] + b["width"] <= chart["x"] + chart["width"] for b in boxes)
    # Search shows what it finds from near, and only that: on the map, in the list, among the labels.
    whole = page.evaluate("$('scatter')._fullLayout.xaxis.range")
    page.fill("#find", "long name 43")
    page.wait_for_function("window.map.state.found?.size === 20 && $('scatter').layout.annotations.length === 1")
    near = page.evaluate("$('scatter')._fullLayout.xaxis.range")
    assert near[1] - near[0] < 0.3 * (whole[1] - whole[0])
    assert texts.all_text_contents() == ["long name 43"]
    assert page.locator("#classes .entry").count() == 1
    line = page.evaluate("$('scatter').data[1].marker.line.width")
    assert line > 1 and page.evaluate("$('scatter').data[0].marker.opacity") < 0.2
    page.fill("#find", "")
    page.wait_for_function("$('scatter').layout.annotations.length >= 40")
    again = page.evaluate("$('scatter')._fullLayout.xaxis.range")
    np.testing.assert_allclose(again, whole, atol=0.02 * (whole[1] - whole[0]))
    # On paper the list is whole.
    page.emulate_media(media="print")
    assert page.evaluate("$('classes').scrollHeight <= $('classes').clientHeight + 1")
    page.emulate_media(media="screen")
    assert seen.problems == []


@pytest.mark.browser
def test_more_names_on_zooming_in_and_pictures_to_save(tmp_path: Path, watch: Any) -> None:
    from matplotlib.image import imread

    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(400), 5)
    x = rng.uniform(size=(400, 2))[codes] + 0.003 * rng.normal(size=(2000, 2))
    write_scatter(path := tmp_path / "map.html", x, [f"a long name of class {c}" for c in codes])
    page = watch(path.as_uri(), width=1400, height=900).page
    page.wait_for_selector(READY, timeout=60_000)
    inside = """() => { const { xaxis: { range: [a, b] }, annotations } = $("scatter")._fullLayout;
        return annotations.filter(({ x, text }) => text.startsWith("a long") && x > 0.4 && x < 0.6).length; }"""
    before = page.evaluate(inside)
    page.evaluate("Plotly.relayout('scatter', { 'xaxis.range': [0.4, 0.6], 'yaxis.range': [0.2, 0.8] })")
    page.wait_for_function(f"({inside})() > {before}")
    page.fill("#width", "1000")
    for kind in ("png", "svg"):
        with page.expect_download() as saved:
            page.click(f"#{kind}")
        saved.value.save_as(file := tmp_path / f"map.{kind}")
        assert saved.value.suggested_filename == f"eigenprobe.{kind}"
        assert file.stat().st_size > 10_000
    assert abs(imread(tmp_path / "map.png").shape[1] - 1000) <= 2
    assert "<svg" in (tmp_path / "map.svg").read_text() and "a long name" in (tmp_path / "map.svg").read_text()


def test_without_labels_groups_are_found(tmp_path: Path) -> None:
    x, labels = hundred()
    x, labels = x[:120], labels[:120]  # six groups
    write_scatter(tmp_path / "map.html", x, texts=[f"row of {name}" for name in labels])
    (found,) = payload((tmp_path / "map.html").read_text())["colourings"]
    codes = array(found["codes"], "<u2")
    assert found["name"] == "group" and len(found["classes"]) == 6
    assert all(len(set(labels[codes == code])) == 1 for code in range(6))
    for code, rows in enumerate(found["typical"]):
        assert len(rows) == 3 and (codes[rows] == code).all()
        assert found["classes"][code] == f"group {code + 1}: row of {labels[rows[0]]}"
    # What is given as None is drawn as it is; a plane is its own map.
    write_scatter(tmp_path / "raw.html", x, labels, layout=None)
    assert payload((tmp_path / "raw.html").read_text())["layout"] is None
    write_scatter(tmp_path / "raw.html", x[:, :2], labels)
    assert payload((tmp_path / "raw.html").read_text())["layout"] is None


def test_an_estimator_draws_itself(tmp_path: Path) -> None:
    from eigenprobe import OptimalApproximationEigenmaps

    x, labels = hundred()
    model = OptimalApproximationEigenmaps(6, random_state=0, map_dimensions=3).fit(x[:160])
    model.report(tmp_path / "map.html", labels[:160], title="eight")
    data = payload((tmp_path / "map.html").read_text())
    assert data["across"] == 3 and len(data["eigenvalues"]) == 6 and data["title"] == "eight"
    np.testing.assert_allclose(array(data["layout"], "<f4").reshape(160, 3), model.layout_, rtol=1e-5, atol=1e-5)
    assert model.place(x[:4]).shape == (4, 3)
    figure = model.plot(path=tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 5000
    assert figure.legends[0].get_texts()[0].get_text() == "group 1"


def test_groups_do_not_depend_on_the_number_of_coordinates(tmp_path: Path) -> None:
    """They are those of the map, in a report, on the command line (arrays) and in a picture alike."""
    from sklearn.datasets import load_digits

    from eigenprobe import OptimalApproximationEigenmaps
    from eigenprobe.viz.scatter import find_groups

    x = load_digits().data[:500]
    models = [OptimalApproximationEigenmaps(k, random_state=0).fit(x) for k in (5, 20)]
    found = []
    for number, model in enumerate(models):
        model.report(path := tmp_path / f"{number}.html")
        found.append(payload(path.read_text())["colourings"])
        write_scatter(path, model.embedding_, layout=model.layout_)
        found.append(payload(path.read_text())["colourings"])
    assert all(each == found[0] for each in found)
    named = models[0].plot().axes[0].get_figure().legends[0].get_texts()
    assert len(named) == len(found[0][0]["classes"]) == len(find_groups(models[0].layout_).typical)  # type: ignore[union-attr]
