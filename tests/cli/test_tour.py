"""Tests of `cli.tour`: the commands to look at things."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import eigenprobe as ep
from tests.cli.conftest import Run, done


def test_view(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from urllib.request import urlopen

    seen: list[int] = []

    def look() -> None:
        text = sys.stdout.getvalue() if hasattr(sys.stdout, "getvalue") else ""
        address = re.search(r"http://\S+?(?=[,\s])", text or "http://127.0.0.1:18080 ")
        assert address is not None and "127.0.0.1" in address[0]
        seen.append(urlopen(address[0], timeout=10).status)
        raise KeyboardInterrupt

    monkeypatch.setattr("eigenprobe.viz.viewer._interrupted", look)
    out = done(run("view bunny.obj -k 6 --port 18080"))
    assert "viewer at http://127.0.0.1:" in out and "viewer ended" in out
    assert seen == [200]


def test_demo(run: Run) -> None:
    files = (
        "d/creature.obj",
        "d/basis.safetensors",
        "d/eigenfunctions.png",
        "d/pretrained.png",
        "d/report.html",
    )
    out = done(run("demo --out d -k 12 "), *files)
    assert (
        out.splitlines()[-1] == f"now open {Path('d/report.html').resolve().as_uri()} in a browser"
    )
    basis, shape = ep.Basis.load("d/basis.safetensors"), ep.geometry.load("d/creature.obj")
    assert (basis.faces == shape.faces).all()  # `view` draws its mesh
