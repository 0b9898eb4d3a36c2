"""The documentation as a site: built once, then read as text and in a browser, from the disk and
without a network.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_what_is_made_when_it_is_built(site: Path) -> None:
    assert "Usage: eigenprobe decompose" in (site / "commands.html").read_text()
    first = (site / "index.html").read_text()
    assert 'id="install"' in first and "pip install" in first
    formulas = (site / "mathematics.html").read_text()
    assert (
        formulas.count("<math") > 30
        and "arithmatex" not in formulas
        and "$" not in re.sub("<[^>]*>", "", formulas)
    )
    entries = json.loads((site / "search.json").read_text())["items"]
    assert any("decompose" in entry["title"] for entry in entries) and len(entries) > 100


def test_the_api_has_every_name_with_its_parameters(site: Path) -> None:
    page = (site / "api.html").read_text()
    for name in re.findall(r"<!-- api: (\S+) -->", (ROOT / "docs" / "api.md").read_text()):
        assert f'id="eigenprobe.{name}"' in page, name
    start = page.index('id="eigenprobe.decomposition.decompose"')
    own = re.sub("<[^>]*>", "", page[start : page.index('id="eigenprobe.operators.laplacian"')])
    assert "ep.decompose" in own and "How many basis vectors, the constant one included." in own
    assert "Parameters" in own and "-----" not in own  # sections, not the text of a docstring


@pytest.fixture
def reader(browser: Any) -> Iterator[Any]:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(20_000)
    yield page
    context.close()


@pytest.mark.browser
def test_search_and_copy_from_the_disk(site: Path, reader: Any) -> None:
    requests: list[str] = []
    reader.on("request", lambda request: requests.append(request.url))
    reader.goto((site / "tutorials" / "shape.html").as_uri())
    reader.locator(".md-search__button").first.click()
    reader.wait_for_timeout(1000)  # the index is read
    reader.get_by_placeholder("Search").first.fill("dirichlet")
    reader.get_by_text(re.compile(r"^\d+ results?$")).first.wait_for()
    reader.get_by_text(re.compile("Dirichlet")).first.wait_for()
    reader.keyboard.press("Escape")
    # A copied command has no prompt.
    reader.goto((site / "index.html").as_uri())
    block = reader.locator(".highlight:has(.gp)").first
    assert block.inner_text().strip().startswith("$ pip install")
    block.hover()
    block.locator("button").first.click()
    reader.wait_for_timeout(300)
    assert reader.evaluate("navigator.clipboard.readText()").strip() == "pip install ."
    assert [
        url for url in requests if not url.startswith(("file:", "data:", "blob:", "about:"))
    ] == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [1250, 390])
def test_pages_fit_the_screen(site: Path, reader: Any, width: int) -> None:
    reader.set_viewport_size({"width": width, "height": 800})
    for name in ("index", "gallery", "coming_from", "mathematics", "api"):
        reader.goto((site / f"{name}.html").as_uri())
        assert reader.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    reader.goto((site / "gallery.html").as_uri())
    images = "[...document.querySelectorAll('article img')]"
    shown = reader.evaluate(f"{images}.map((i) => i.naturalWidth * i.clientWidth > 0)")
    assert len(shown) == 11 and all(shown)
