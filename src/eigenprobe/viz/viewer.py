"""The report, live: served to a browser on this machine, steered from Python and telling what is
chosen there.

    GET /            the page of `report`
    GET /choice      what was asked here by `Viewer.set`, for the page to look up
    POST /choice     what the page shows now: `Viewer.choice`
    POST /basis      k, neighbours and smoother to compute by

It listens on the loopback address unless another is given, and answers its own page only.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from numpy.typing import ArrayLike

from ..errors import InputError
from ..host.files import Facts
from ..host.validation import checked
from .report import Source, Values, open_basis, report_page

log = logging.getLogger(__name__)
# What the page can be asked to show, and what it tells.
CHOICE = {
    "mode": "vector",
    "index": 2,
    "k": 20,
    "response": "first k",
    "low": 1,
    "detail": 0.0,
    "field": "heat kernel",
    "reach": 0.4,
    "point": 0,
    "own": "",
    "map": "auto",
    "range": 1.0,
    "wire": False,
    "playing": False,
}
LONGEST = 10_000  # bytes of a choice


class _Handler(BaseHTTPRequestHandler):  # of HTTP/1.0: a connection is one request
    server: Viewer

    def parse_request(self) -> bool:
        """Whether the request is answered at all.

        Another web page may send requests to this machine through the browser: directly (its
        `Origin` then is not the address asked) or by a name of its own that resolves to this
        machine (the `Host` then is neither an address nor the name given).
        """
        if not super().parse_request():
            return False
        asked, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        with suppress(ValueError):  # of a header that is no address
            name = urlsplit(f"//{asked}").hostname or ""
            known = name in ("localhost", self.server.host.lower())
            if (known or ipaddress.ip_address(name)) and (
                origin is None or urlsplit(origin).netloc == asked
            ):
                return True
        self._answer(403, b"the viewer answers its own page only\n")
        return False

    def do_GET(self) -> None:
        state = {"asked": self.server.asked, "choice": self.server.choice}
        if self.path == "/choice":
            self._answer(200, json.dumps(state).encode(), "application/json")
        elif self.path == "/":
            self._answer(200, self.server.page, "text/html; charset=utf-8")
        else:
            self._answer(404, b"no such page\n")

    def do_POST(self) -> None:
        size, message = self.headers.get("Content-Length", ""), None
        take = {"/choice": self.server.take, "/basis": self.server.compute}.get(self.path)
        if take and size.isdecimal() and int(size) <= LONGEST:
            with suppress(RecursionError, ValueError):
                message = json.loads(self.rfile.read(int(size)))
        code, told = 400, b"expected a choice, an object of names and values"
        if take and isinstance(message, dict):
            try:
                take(message)
                code, told = 204, b""
            except (TypeError, ValueError) as error:
                told = str(error).encode()
        self._answer(code, told)

    def _answer(self, code: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the caller says where the viewer is."""


class Viewer(ThreadingHTTPServer):
    """A running viewer; `url` says where, `stop` ends it, `choice` is what is shown, `set` changes
    it.
    """

    allow_reuse_address = False

    def __init__(
        self,
        page: str,
        host: str = "127.0.0.1",
        port: int = 8080,
        again: Callable[..., str] | None = None,
    ) -> None:
        if not 0 <= port <= 65535:
            raise InputError(f"port must lie in 0..65535, got {port}")
        if not host:
            raise InputError("expected a host to listen on, such as 127.0.0.1 (0.0.0.0 is all)")
        self.page, self.host, self.choice = page.encode(), host, dict(CHOICE)
        self._again, self._computing = again, threading.Lock()
        self.asked = 0  # how often `set` was called
        for candidate in range(port, min(port + 50, 65536)):
            with suppress(OSError):
                super().__init__((host, candidate), _Handler)
                break
        else:
            raise InputError(f"cannot listen on {host}:{port}")
        self.port = self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    def handle_error(self, request: object, client_address: object) -> None:
        """A page that left, or a request that is none: nothing for the caller's terminal."""
        log.debug("a request of %s failed", client_address, exc_info=True)

    @property
    def url(self) -> str:
        return f"http://{'127.0.0.1' if self.host == '0.0.0.0' else self.host}:{self.port}"

    def set(self, **changes: Any) -> None:
        """Change what every open page shows, by the names in `choice`."""
        if unknown := set(changes) - set(CHOICE):
            raise InputError(f"a choice has {', '.join(CHOICE)}, got {', '.join(sorted(unknown))}")
        self.take(changes)
        self.asked += 1

    def take(self, changes: Facts) -> None:
        """Note what is shown; an error where a value is not of the kind of the usual one."""
        known = {name: value for name, value in changes.items() if name in CHOICE}
        for name, value in known.items():
            checked(type(CHOICE[name]), name, value)
            if not isinstance(value, str) and value < 0:
                raise InputError(f"{name} must be at least 0, got {value}")
        self.choice.update(known)

    def compute(self, settings: Facts) -> None:
        """Show the basis of other settings (k, neighbours, smoother) of `decompose`."""
        if self._again is None:
            raise InputError("only a shape or a basis with points can be computed again")
        with self._computing:
            self.page = self._again(**settings).encode()

    def wait(self) -> None:
        """Until interrupted; then it stops."""
        try:
            self._thread.join()
        except KeyboardInterrupt:
            log.info("viewer stopped")
        finally:
            self.stop()

    def stop(self) -> None:
        """Close all connections and free the port."""
        self.shutdown()
        self.server_close()


def serve(
    source: Source,
    *,
    compare: Source | None = None,
    faces: ArrayLike | None = None,
    values: Values = None,
    k: int = 50,
    host: str = "127.0.0.1",
    port: int = 8080,
    block: bool = True,
) -> Viewer:
    """Show a basis, a saved basis or a shape file in the browser, live.

    Parameters
    ----------
    source
        A `Basis`, a saved one, or a shape file that is decomposed first.
    compare
        Shown beside it: the same, or "direct", "network", "pretrained" or "oracle" (on a mesh) for
        the same points by that method.
    faces
        ``(f, 3)``, by default those of the basis.
    values
        Functions ``(n,)`` of your own to show on the shape: by their names, or one.
    k
        How many vectors, for a shape file.
    host, port
        Where it listens. A taken port moves on to the next free one, so read the address from
        `Viewer.url` or the log.
    block
        Whether the call returns when interrupted, or at once with the running viewer.

    Returns
    -------
    Viewer

    Examples
    --------
    >>> import numpy as np
    >>> from eigenprobe import decompose
    >>> basis = decompose(np.random.default_rng(0).normal(size=(300, 3)), k=4)
    >>> viewer = serve(basis, block=False)
    >>> viewer.set(index=3)
    >>> viewer.stop()
    """
    basis, name = open_basis(source, k)
    given: Any = {"faces": basis.faces if faces is None else faces, "title": name}
    given |= {"compare": compare, "values": values}

    def computed(**settings: Any) -> str:
        from ..decomposition import decompose

        wanted = {name: each for name, each in settings.items() if each != "auto"}
        made = decompose(basis.points, **wanted)
        return report_page(made, live=settings, facts=made.info, **given)

    live = {"k": basis.k, "neighbours": "auto", "smoother": "adaptive"}
    live |= {name: basis.info[name] for name in ("neighbours", "smoother") if name in basis.info}
    again = None if basis.points is None else computed
    viewer = Viewer(report_page(basis, live=live, facts=basis.info, **given), host, port, again)
    log.info("viewer at %s (interrupt to stop)", viewer.url)
    if block:
        viewer.wait()
    return viewer
