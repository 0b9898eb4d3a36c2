"""The pictures of docs/gallery.md: every block of Python on that page is run, and the figure it
makes is written.

python examples/gallery.py [docs/images/gallery]
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Any

from PIL import Image

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gallery.md"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    namespace: dict[str, Any] = {}
    blocks = re.findall(
        r"^(?:!\[[^\]]*\]\((?P<path>[^)]+)\)\n\n)?```python\n(?P<code>.*?)^```",
        PAGE.read_text(),
        re.M | re.S,
    )
    for path, code in blocks:
        exec(compile(code, str(PAGE), "exec"), namespace)
        if path:
            out = folder / Path(path).name
            write(namespace["figure"], out)
            print(out)


def write(figure: Any, path: Path, colours: int = 128) -> None:
    """Small files: 1600 pixels across, and few colours."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=1600 / figure.get_size_inches()[0])
    image = Image.open(buffer).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/gallery"))
