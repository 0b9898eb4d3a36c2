"""Lines of code by folder, without docstrings, comments and blank lines.

python -m benchmarks.lines [FOLDER ...]        src/eigenprobe and src/eigenprobe_lab by default
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Lines that hold a token of code; a docstring is none."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            prose |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            found |= set(range(token.start[0], token.end[0] + 1))
    return len(found - prose)


def by_folder(package: Path) -> Counter[str]:
    """Code lines of each folder and file directly below a package."""
    found: Counter[str] = Counter()
    for path in sorted(package.rglob("*.py")):
        found[path.relative_to(package).parts[0]] += code_lines(path.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    packages = [SOURCES / "eigenprobe", SOURCES / "eigenprobe_lab"]
    parser.add_argument("folders", type=Path, nargs="*", default=packages)
    for folder in parser.parse_args().folders:
        found = by_folder(folder)
        for name, count in found.items():
            print(f"{count:6d}  {name}")
        print(f"{found.total():6d}  {folder.name}\n")


if __name__ == "__main__":
    main()
