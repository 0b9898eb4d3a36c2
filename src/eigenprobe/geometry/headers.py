"""What the header of a mesh file claims, compared with the file before and after it is parsed.

    ply    element NAME COUNT ...        ascii: one line per element;  binary: at least one byte each
    off    v f e                         one line per vertex and per face
    glb    accessors[i].count            at least one byte each; without a buffer view it would be zeros of any length

The parser takes a file that ends early for a smaller mesh; here it is an error.
"""

from __future__ import annotations

import json
import struct
from itertools import islice
from pathlib import Path

from ..errors import InputError

Claim = tuple[list[int], int, int, str]  # counts, elements claimed, what follows the header, in which unit


def check_header(path: Path, suffix: str) -> None:
    """An `InputError` where the file cannot hold what its header claims."""
    if suffix in CLAIMS:
        counts, claimed, present, unit = CLAIMS[suffix](path)
        if min(counts, default=0) < 0 or claimed > present:
            raise InputError(f"{path} ends early: its header claims {claimed} elements, {present} {unit} follow")


def _ply(path: Path) -> Claim:
    with path.open("rb") as file:
        ascii_, counts = False, []
        for line in islice(file, 10_000):
            words = line.split()
            if words[:1] == [b"format"]:
                ascii_ = words[1:2] == [b"ascii"]
            elif words[:1] == [b"element"]:
                counts.append(int(words[2]))
            elif words[:1] == [b"end_header"]:
                break
        present = sum(1 for line in file if line.strip()) if ascii_ else path.stat().st_size - file.tell()
    return counts, sum(counts), present, "lines" if ascii_ else "bytes"


def _off(path: Path) -> Claim:
    with path.open("rb") as file:
        lines = (text for line in file if (text := line.split(b"#")[0].strip()))
        words = next(lines, b"").replace(b"COFF", b"").replace(b"OFF", b"").split() or next(lines, b"").split()
        counts = [int(word) for word in words[:2]]
        return counts, sum(counts), sum(1 for _ in lines), "lines"


def _gltf(path: Path) -> Claim:
    data = path.read_bytes()
    if path.suffix.lower() == ".glb":
        (length,) = struct.unpack_from("<I", data, 12)
        document = json.loads(data[20 : 20 + length])
        size = len(data)
    else:
        document = json.loads(data)
        size = len(data) + sum(int(buffer.get("byteLength", 0)) for buffer in document.get("buffers", []))
        if any(".." in Path(str(buffer.get("uri", ""))[:1000]).parts for buffer in document.get("buffers", [])):
            raise InputError(f"{path} refers to files outside its folder")
    counts = [int(accessor["count"]) for accessor in document.get("accessors", [])]
    return counts, max(counts, default=0), size, "bytes"


CLAIMS = {".ply": _ply, ".off": _off, ".glb": _gltf, ".gltf": _gltf}
