"""A live viewer in the browser (viser): pick a vector, filter the shape, click a point, compare two methods.

`serve` turns a saved basis, a `Basis` or a shape file into panels and keeps them in step with the controls. It listens
on the loopback address unless told otherwise. What is drawn is decided in `panels`; this module is the controls only.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import logging
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from ..basis import Basis
from ..errors import InputError, extra
from .panels import FIELDS, FILTERS, MODES, Choice, Panel, glb, side_by_side, viewing_distance

Source = Basis | str | os.PathLike[str]
log = logging.getLogger(__name__)
METHODS = ("direct", "network", "pretrained")
FIELD_OF_VIEW = math.radians(40)


class Viewer:
    """A running viewer; `url` says where, `stop` ends it. `choice` is what is shown, `refresh` draws it."""

    def __init__(self, panels: list[Panel], host: str = "127.0.0.1", port: int = 8080) -> None:
        viser = extra("viser")
        self.panels, self.choice = panels, Choice(high=min(20, panels[0].basis.k), index=min(2, panels[0].basis.k))
        self._lock = threading.RLock()
        self._nodes: list[Any] = [None] * len(panels)
        self._offsets = side_by_side(len(panels))
        with contextlib.redirect_stdout(io.StringIO()), _own_pages_only(host):  # viser's banner: the caller says where
            self.server = viser.ViserServer(host=host, port=port, label="eigenprobe", verbose=False)
        self.host, self.port = host, self.server.get_port()
        self._stage()
        self._controls()
        self.refresh()
        self.server.scene.on_click()(self._clicked)

    @property
    def url(self) -> str:
        return f"http://{'127.0.0.1' if self.host == '0.0.0.0' else self.host}:{self.port}"

    def stop(self) -> None:
        """Close all connections and free the port."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def _stage(self) -> None:
        server, count = self.server, len(self.panels)
        server.gui.configure_theme(control_width="medium", show_logo=False, show_share_button=False)
        if hasattr(server.gui, "main_panel"):  # viser 1.1; before that the controls float
            server.gui.main_panel.dock_right()
        server.scene.set_up_direction("+y")
        # Plain lamps instead of viser's environment map: colours stay true, and software rendering is quick.
        server.scene.configure_environment_map(hdri=None)
        server.scene.configure_default_lights(enabled=False)
        server.scene.add_light_ambient("/ambient", intensity=1.6)
        server.scene.add_light_directional("/key", intensity=2.2, position=(-0.6, 0.9, 1.0))
        server.scene.add_light_directional("/back", intensity=1.2, position=(0.6, 0.3, -1.0))
        server.initial_camera.position = (0.0, 0.0, viewing_distance(count, FIELD_OF_VIEW))
        server.initial_camera.look_at = (0.0, 0.0, 0.0)
        server.initial_camera.up = (0.0, 1.0, 0.0)
        server.initial_camera.fov = FIELD_OF_VIEW
        red = (220, 40, 40)
        self._marks = [server.scene.add_icosphere(f"/mark{i}", 0.022, color=red, visible=False) for i in range(count)]
        if count > 1:
            for panel, (x, *_) in zip(self.panels, self._offsets, strict=True):
                server.scene.add_label(f"/name {panel.name} {x:.0f}", panel.name, position=(x, 1.05, 0.0))

    def _controls(self) -> None:
        gui, choice = self.server.gui, self.choice
        k = min(panel.basis.k for panel in self.panels)
        mode: Any = gui.add_dropdown("Show", MODES, initial_value=choice.mode)
        self._folders = {name: gui.add_folder(name, visible=name == choice.mode) for name in MODES if name != "Mass"}
        with self._folders["Eigenfunction"]:
            index: Any = gui.add_slider("index", 1, max(k, 2), 1, choice.index)
            turn = gui.add_button_group("", ("‹ previous", "next ›"))
        with self._folders["Filtered shape"]:
            response = gui.add_dropdown("response", FILTERS, initial_value=choice.filter)
            low = gui.add_slider("from", 1, max(k, 2), 1, choice.low, hint="first mode kept (band)", visible=False)
            high = gui.add_slider("to", 1, max(k, 2), 1, choice.high, hint="last mode kept")
            smooth = gui.add_slider("time", 0.0, 1.0, 0.01, choice.reach, hint="log scale", visible=False)
            hint = "gain of what the basis cannot express"
            outside = gui.add_slider("fine detail", 0.0, 2.0, 0.05, choice.outside, hint=hint)
        with self._folders["From a point"]:
            gui.add_markdown("Click the shape to move the point.")
            field = gui.add_dropdown("show", FIELDS, initial_value=choice.field)
            reach = gui.add_slider("time", 0.0, 1.0, 0.01, choice.reach, hint="log scale, from local to global")
        self._text = gui.add_markdown("")

        followed = {"index": index, "low": low, "high": high, "outside": outside}
        for name, handle in (*followed.items(), ("reach", smooth), ("reach", reach)):
            handle.on_update(lambda event, name=name: self.set(**{name: event.target.value}))

        @mode.on_update
        def _(_: Any) -> None:
            for name, folder in self._folders.items():
                folder.visible = name == mode.value
            self.set(mode=mode.value)

        @response.on_update
        def _(_: Any) -> None:
            low.visible, high.visible = response.value == "band", response.value != "heat"
            smooth.visible = response.value == "heat"
            self.set(filter=response.value)

        @field.on_update
        def _(_: Any) -> None:
            reach.visible = field.value in FIELDS[:2]
            self.set(field=field.value)

        @turn.on_click
        def _(_: Any) -> None:
            index.value = min(k, max(1, index.value + (1 if turn.value.startswith("next") else -1)))

        self._mode = mode

    def set(self, **changes: Any) -> None:
        """Change what is shown, by the names of `Choice`, and draw it."""
        with self._lock:
            for name, value in changes.items():
                setattr(self.choice, name, value)
            self.refresh()

    def refresh(self) -> None:
        """Draw the current choice on every panel."""
        lines = []
        with self._lock, self.server.atomic():
            marked = self.panels[0].xyz[self.choice.point]
            for i, panel in enumerate(self.panels):
                choice = self.choice
                if i and choice.mode == "From a point":
                    choice = replace(choice, point=panel.nearest(marked))
                xyz, rgb, text = panel.show(choice)
                self._draw(i, panel, xyz, rgb)
                lines.append(f"**{panel.name}**: {text}" if len(self.panels) > 1 else text)
                self._marks[i].visible = choice.mode == "From a point"
                self._marks[i].position = tuple(panel.xyz[choice.point] + self._offsets[i])
            self._text.content = "\n\n".join(lines)

    def _draw(self, i: int, panel: Panel, xyz: Any, rgb: Any) -> None:
        node, name, place = self._nodes[i], f"/shape{i}", tuple(self._offsets[i])
        if panel.faces is not None:
            data = glb(xyz, panel.faces, rgb)
            if node is None:
                add = self.server.scene.add_glb
                self._nodes[i] = add(name, data, position=place, cast_shadow=False, receive_shadow=False)
            else:
                node.glb_data = data
            return
        points, tint = xyz.astype(np.float32), (np.clip(rgb, 0, 1) * 255).astype(np.uint8)
        if node is None:
            shape: dict[str, Any] = {"point_size": 1.9 * panel.spacing, "point_shape": "circle", "precision": "float32"}
            self._nodes[i] = self.server.scene.add_point_cloud(name, points, tint, position=place, **shape)
        else:
            node.points, node.colors = points, tint

    def _clicked(self, event: Any) -> None:
        if event.ray_origin is None or event.ray_direction is None:
            return
        for panel, offset in zip(self.panels, self._offsets, strict=True):
            row = panel.hit(np.asarray(event.ray_origin) - offset, np.asarray(event.ray_direction))
            if row is not None:
                point = row if panel is self.panels[0] else self.panels[0].nearest(panel.xyz[row])
                self.choice.point = point
                if self._mode.value == "From a point":
                    self.refresh()
                else:
                    self._mode.value = "From a point"
                return


_starting = threading.Lock()


@contextlib.contextmanager
def _own_pages_only(host: str) -> Iterator[None]:
    """A server started inside answers its own page and no other.

    Another web page may send requests to this machine through the browser: directly (its `Origin` then is not the
    address asked) or by a name of its own that resolves to this machine (the `Host` then is neither an address nor
    the name given). viser has no setting for it, so that the call by which it starts to listen is wrapped.
    """
    from websockets.asyncio import server

    listen = server.serve

    def guarded(*positional: Any, process_request: Any = None, **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            asked, origin = request.headers.get("Host", ""), request.headers.get("Origin")
            if not _is_ours(asked, host) or (origin is not None and urlsplit(origin).netloc != asked):
                return connection.respond(403, "the viewer answers its own page only\n")
            return process_request(connection, request) if process_request is not None else None

        return listen(*positional, process_request=check, **options)

    with _starting:
        server.serve = guarded  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            server.serve = listen  # type: ignore[misc]


def _is_ours(asked: str, host: str) -> bool:
    """Whether a `Host` header is an address, localhost, or the name that the viewer was given."""
    try:
        name = urlsplit(f"//{asked}").hostname or ""
        if name in ("localhost", host.lower()):
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _open(source: Source, faces: Any, k: int, beside: Panel | None = None) -> Panel:
    """A panel from a basis, a saved basis, a shape file, or (beside another) the name of a method."""
    if isinstance(source, Basis):
        return Panel(source, faces=source.faces if faces is None else faces)
    if beside is not None and str(source) in (*METHODS, "oracle"):
        return _another(str(source), beside, faces)
    path = Path(source)
    if path.suffix == ".safetensors":
        basis, name = Basis.load(path), path.parent.name if path.stem == "basis" else path.stem
        return Panel(basis, faces=basis.faces if basis.faces is not None else faces, name=name)
    from ..decomposition import decompose
    from ..geometry import load

    shape = load(path)
    return Panel(decompose(shape.vertices, k=min(k, len(shape.vertices) - 1)), faces=shape.faces, name=path.stem)


def _another(method: Any, beside: Panel, faces: Any) -> Panel:
    basis = beside.basis
    if basis.points is None:
        raise InputError("a method can only be compared on a basis that carries its points")
    if method == "oracle":
        from ..geometry import oracle

        if faces is None:
            raise InputError("the oracle needs a mesh, got a cloud")
        return Panel(oracle(basis.points, faces, basis.k), basis.points, faces, name="oracle")
    from ..decomposition import decompose

    return Panel(decompose(basis.points, k=basis.k, method=method), faces=faces, name=method)


def serve(
    source: Source,
    *,
    compare: Source | None = None,
    faces: Any = None,
    k: int = 50,
    host: str = "127.0.0.1",
    port: int = 8080,
    block: bool = True,
) -> Viewer:
    """Show a basis, a saved basis or a shape file in the browser, beside a second one if `compare` is given.

    `compare` may also be "direct", "network", "pretrained" or "oracle" (on a mesh): the same points by that method.
    With `block` the call returns when interrupted; without it the running `Viewer` is returned at once. A taken port
    moves on to the next free one, so read the address from `Viewer.url` or the log.
    """
    first = _open(source, faces, k)
    panels = [first]
    if compare is not None:
        triangles = first.triangles if faces is None else faces
        second = _open(compare, triangles, k, beside=first)
        second.align(first)
        panels.append(second)
    viewer = Viewer(panels, host, port)
    log.info("viewer at %s (interrupt to stop)", viewer.url)
    if block:
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            log.info("viewer stopped")
        finally:
            viewer.stop()
    return viewer
