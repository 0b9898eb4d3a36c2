"""Frames per second of a map of many rows, in a browser without a window.

    python -m benchmarks.frames [--rows 200000]

The map is drawn by Chromium and moved by the mouse. ``main thread`` is what the page itself takes
per frame; the rest of a frame is drawing, which a machine without a GPU does in software.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from eigenprobe.viz.scatter import write_scatter

FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
COUNT = "window.seen = []; const each = t => { seen.push(t); requestAnimationFrame(each) }"


def measure(page: Any, path: Path) -> None:
    """Print the frames of some gestures."""
    began = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready=true]", timeout=120_000)
    print(f"ready after {time.perf_counter() - began:.1f} s, {path.stat().st_size / 1e6:.1f} MB")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(f"() => {{ {COUNT}; requestAnimationFrame(each) }}")
    page.evaluate("Plotly.relayout('scatter', {dragmode: 'pan'})")
    box = page.locator("#scatter").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def busy() -> float:
        found = session.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in found if each["name"] == "TaskDuration")

    def pan() -> None:
        page.mouse.move(x, y)
        page.mouse.down()
        for i in range(60):
            page.mouse.move(x + 2 * i, y + i)
        page.mouse.up()

    def zoom() -> None:
        for _ in range(30):
            page.mouse.wheel(0, -40)

    def point() -> None:
        for i in range(60):
            page.mouse.move(x + 3 * i, y)

    gestures: dict[str, Callable[[], None]] = {"pan": pan, "zoom": zoom, "point at rows": point}
    for name, gesture in gestures.items():
        page.wait_for_timeout(1500)
        page.evaluate("seen.length = 0")
        before, began = busy(), time.perf_counter()
        gesture()
        seconds, frames = time.perf_counter() - began, page.evaluate("seen.length")
        print(
            f"{name:14s} {frames / seconds:5.1f} frames per second, "
            f"main thread {1000 * (busy() - before) / max(frames, 1):.0f} ms per frame"
        )


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    labels = rng.integers(40, size=rows)
    x = (8 * rng.normal(size=(40, 2)))[labels] + rng.normal(size=(rows, 2))
    with TemporaryDirectory() as folder, sync_playwright() as play:
        write_scatter(path := Path(folder) / "map.html", x, labels)
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        measure(browser.new_page(viewport={"width": 1400, "height": 900}), path)
        browser.close()


if __name__ == "__main__":
    main()
