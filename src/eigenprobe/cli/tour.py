"""Commands to look at things: ``demo`` on a built-in shape, ``view`` in the browser."""

from __future__ import annotations

from pathlib import Path

from .context import Context


def view(
    source: Path,
    *,
    compare: Path | None = None,
    k: int = 50,
    host: str = "127.0.0.1",
    port: int = 8080,
    context: Context,
) -> None:
    """Turn a shape and its eigenfunctions in the browser, live.

    Examples:
      eigenprobe view bunny.obj
      eigenprobe view out/bunny/basis.safetensors --compare out/network/basis.safetensors

    Args:
        source: a saved basis, or a shape to decompose first
        compare: a second basis, shown beside the first
        k: how many vectors, for a shape
        host: address to listen on; only this machine can connect unless told otherwise
        port: port to listen on
    """
    raise NotImplementedError


def demo(*, k: int = 30, n: int = 3000, context: Context) -> None:
    """Decompose a built-in shape and leave a picture and a report behind.

    Examples:
      eigenprobe demo
      eigenprobe demo --out tour -k 60

    Args:
        k: how many basis vectors
        n: how many points
    """
    raise NotImplementedError
