"""The pictures of the two pages: the report of a small animal and the map of handwritten digits, as
a browser shows them.

python examples/pages.py [docs/images]        with playwright, and Chromium or Google Chrome
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

import eigenprobe as ep

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SIZE = {"width": 1400, "height": 900}


def main(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    mesh = ep.datasets.creature()
    basis = ep.decompose(mesh.vertices, k=50)
    rows, _ = ep.datasets.digits()
    model = ep.Eigenmaps(random_state=0).fit(rows)
    pictures: Any = {"images": [row.reshape(8, 8) for row in rows]}
    with tempfile.TemporaryDirectory() as pages, sync_playwright() as driver:
        basis.report(f"{pages}/report.html", title="creature", faces=mesh.faces)
        model.report(f"{pages}/map.html", title="handwritten digits", **pictures)
        options = {"args": ["--no-sandbox", "--enable-unsafe-swiftshader"]}
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = driver.chromium.launch(executable_path=found, **options)  # type: ignore[arg-type]
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        for name in ("report", "map"):
            page.goto(Path(f"{pages}/{name}.html").as_uri())
            page.wait_for_selector("body[data-ready=true]", timeout=120_000)
            page.wait_for_timeout(1500)
            page.screenshot(path=(path := folder / f"{name}.png"))
            few = Image.open(path).convert("RGB").quantize(255, dither=Image.Dither.NONE)
            few.save(path, optimize=True)
            print(path)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
