"""A sphere with its exact harmonics, as a cloud and as a mesh, and a browser to look at pages
with.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from eigenprobe.basis import Basis
from tests.clouds import fibonacci_sphere

READY = "body[data-ready=true]"


def payload(page: str) -> dict[str, Any]:
    """The numbers that a page carries."""
    packed = re.search(r'id="payload">([^<]*)<', page)
    assert packed
    return json.loads(gzip.decompress(base64.b64decode(packed.group(1))))


def array(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


@dataclass(frozen=True)
class Sphere:
    basis: Basis
    points: np.ndarray
    faces: np.ndarray


def make_sphere(n: int = 700, k: int = 16) -> Sphere:
    """Evenly spread points; all polynomials of degree < sqrt(k), orthonormalised, are the harmonics
    l(l + 1).
    """
    x = fibonacci_sphere(n)
    degrees = range(round(k**0.5))
    powers = [
        (l - b - c, b, c) for l in degrees for b in range(l + 1) for c in (0, 1) if b + c <= l
    ]
    powers.sort(key=lambda power: (sum(power), -power[0], -power[1]))
    q, r = np.linalg.qr(np.stack([np.prod(x ** np.array(power), 1) for power in powers], 1))
    values = np.array([sum(power) * (sum(power) + 1.0) for power in powers])
    faces = ConvexHull(x).simplices.astype(np.int64)
    signed = q * np.sign(np.diag(r))
    return Sphere(Basis(signed, np.full(n, 1 / n), values, x, {"method": "exact"}), x, faces)


@pytest.fixture(scope="session")
def sphere() -> Sphere:
    return make_sphere()


def chromium() -> str:
    """Path of an installed browser; the test skips where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("EIGENPROBE_BROWSER") or next(
        (p for p in map(shutil.which, names) if p), None
    )
    if not found:
        pytest.skip(
            "no browser installed (Debian: apt-get install chromium; or set EIGENPROBE_BROWSER)"
        )
    return found


class Watcher:
    """A page and everything that went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page, self.problems, self.requests = page, [], []
        page.on("console", lambda m: self.problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.problems.append(str(e)))
        page.on("request", lambda r: self.requests.append(r.url))

    def pixels(self, selector: str | None = None) -> np.ndarray:
        """What is on the screen, (h, w, 3) in [0, 1]."""
        import io

        from matplotlib.image import imread

        shot = self.page.locator(selector).screenshot() if selector else self.page.screenshot()
        return imread(io.BytesIO(shot))[..., :3]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Software rendering: no GPU is needed, and the pictures are the same everywhere.
        arguments = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        running = driver.chromium.launch(executable_path=path, args=arguments)
        yield running
        running.close()


@pytest.fixture
def watch(browser: Any) -> Iterator[Any]:
    """watch(url, width, height, scheme) opens a page; all of them are closed afterwards."""
    pages = []

    def open_page(
        url: str, width: int = 1200, height: int = 800, scheme: str = "light", script: str = ""
    ) -> Watcher:
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        pages.append(page)
        if script:
            page.add_init_script(script)
        watcher = Watcher(page)
        page.goto(url)
        return watcher

    yield open_page
    for page in pages:
        page.close()
