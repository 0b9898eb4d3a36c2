"""Tokens and lines of code by folder, without docstrings, comments and blank lines.

python -m benchmarks.lines [FOLDER ...]        src/eigenprobe and src/eigenprobe_lab by default
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
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


def code_size(text: str) -> tuple[int, int]:
    """Tokens of code, and lines that hold one; a docstring is none."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            prose |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    tokens, lines = 0, set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT and token.start[0] not in prose:
            tokens += 1
            lines |= set(range(token.start[0], token.end[0] + 1))
    return tokens, len(lines)


def by_folder(package: Path) -> dict[str, tuple[int, int]]:
    """Tokens and lines of each folder and file directly below a package."""
    found: dict[str, tuple[int, int]] = {}
    for path in sorted(package.rglob("*.py")):
        name, (tokens, lines) = path.relative_to(package).parts[0], code_size(path.read_text())
        before = found.get(name, (0, 0))
        found[name] = before[0] + tokens, before[1] + lines
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    packages = [SOURCES / "eigenprobe", SOURCES / "eigenprobe_lab"]
    parser.add_argument("folders", type=Path, nargs="*", default=packages)
    for folder in parser.parse_args().folders:
        found = by_folder(folder)
        total = sum(each[0] for each in found.values()), sum(each[1] for each in found.values())
        print(f"{'tokens':>8s} {'lines':>6s}")
        for name, (tokens, lines) in [*found.items(), (folder.name, total)]:
            print(f"{tokens:8d} {lines:6d}  {name}")


if __name__ == "__main__":
    main()
