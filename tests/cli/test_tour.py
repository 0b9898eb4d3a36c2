"""Tests of `cli.tour`: the commands to look at things."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import eigenprobe as ep
from tests.cli.conftest import Run, done


def test_view(run: Run) -> None:
    """It answers until Ctrl-C."""
    answers: list[int] = []

    def look() -> None:
        for _ in range(600):
            time.sleep(0.1)
            with suppress(OSError):
                answers.append(urlopen("http://127.0.0.1:18080", timeout=10).status)
                break
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.main_thread().ident or 0
    (looking := threading.Thread(target=look)).start()
    out = done(run("view bunny.obj -k 6 --port 18080"))
    looking.join()
    assert "viewer at http://127.0.0.1:18080" in out and "viewer ended" in out
    assert answers == [200]


def test_demo(run: Run) -> None:
    files = ("d/creature.obj", "d/basis.safetensors", "d/eigenfunctions.png", "d/report.html")
    out = done(run("demo --out d -k 12 "), *files)
    page = Path("d/report.html").resolve().as_uri()
    assert out.splitlines()[-1].endswith(f"now open {page} in a browser")
    assert "agrees with pretrained to |cosine| " in out
    basis, shape = ep.Basis.load("d/basis.safetensors"), ep.geometry.load("d/creature.obj")
    assert (basis.faces == shape.faces).all()  # `view` draws its mesh
