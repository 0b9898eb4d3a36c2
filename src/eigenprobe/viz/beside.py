"""What is shown, and what is shown beside it: bases, files and names of methods to bases (n, K)."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..basis import Basis
from ..errors import InputError

Source = Basis | str | os.PathLike[str]
METHODS = ("direct", "network", "pretrained", "oracle")


def open_basis(source: Source, k: int = 50) -> tuple[Basis, str]:
    """A basis and its name, from a basis, a saved one or a shape file that is decomposed first."""
    if isinstance(source, Basis):
        return source, str(source.info.get("method", "basis"))
    path = Path(source)
    if path.suffix == ".safetensors":
        return Basis.load(path), path.parent.name if path.stem == "basis" else path.stem
    from ..decomposition import decompose
    from ..geometry import load

    shape = load(path)
    basis = decompose(shape.vertices, k=min(k, len(shape.vertices) - 1))
    return replace(basis, faces=shape.faces), path.stem


def second_basis(source: Source, first: Basis, points: Any, faces: Any) -> tuple[Basis, str]:
    """A basis to compare with the first: any that can be opened, or the name of a method for the same points."""
    if not isinstance(source, str) or source not in METHODS:
        return open_basis(source, first.k)
    if source == "oracle":
        from ..geometry import oracle

        if faces is None:
            raise InputError("the oracle needs a mesh, got a cloud")
        return oracle(points, faces, first.k), source
    from ..decomposition import decompose

    return decompose(points, k=first.k, method=source), source  # type: ignore[call-overload]
