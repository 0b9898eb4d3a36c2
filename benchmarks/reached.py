"""Which definitions of the sources a measurement can reach.

    entries "FILE" (or a folder) or "FILE:NAME" -> names used there -> what these are, through imports -> (file, name)

A definition is what binds a name at the top of a module: a function, a class, an assignment. Whatever else a module
does at its top counts as soon as one of its definitions does. Names are followed wherever they stand (calls,
annotations, tables of functions, imports inside functions), attributes of modules too; a class counts whole.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

LOOSE = ""  # the name of what binds none; of an import, of a whole module
Found = tuple[Path, str]  # a file and a name there
Import = ast.Import | ast.ImportFrom


class Module:
    """Definitions of a file below ``root`` by name, and the names that it imports from other files there."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.root = path, root
        self.definitions: dict[str, list[ast.stmt]] = {LOOSE: []}
        self.imports: dict[str, Found] = {}
        for statement in _flat(_without_texts(path).body):
            if isinstance(statement, Import):
                self.imports |= self.imported(statement)
                continue
            for name in _bound(statement):
                self.definitions.setdefault(name, []).append(statement)

    def imported(self, statement: Import) -> dict[str, Found]:
        """What an import binds: a definition of a file, or a file."""
        found: dict[str, Found] = {}
        for alias in statement.names:
            if isinstance(statement, ast.Import):
                parts = alias.name.split(".")
                options = [(self._file(parts if alias.asname else parts[:1]), LOOSE)]
            else:
                parts = statement.module.split(".") if statement.module else []
                if statement.level:
                    package = self._package()
                    parts = [*package[: len(package) + 1 - statement.level], *parts]
                options = [(self._file(parts), alias.name), (self._file([*parts, alias.name]), LOOSE)]
            for where, name in options:
                if where not in (None, self.path):
                    found.setdefault(alias.asname or alias.name.split(".")[0], (where, name))
        return found

    def _package(self) -> list[str]:
        return [part for part in self.path.relative_to(self.root).parts[:-1] if part != "src"]

    def _file(self, parts: list[str]) -> Path | None:
        whole = self.root.joinpath(*(["src"] if parts[:1] == ["eigenprobe"] else []), *parts)
        return next((path for path in (whole.with_suffix(".py"), whole / "__init__.py") if path.is_file()), None)

    def within(self, name: str) -> Found:
        """Where a name asked of this module is defined: here, where it is imported from, or a module of a package."""
        if name not in self.definitions and name in self.imports:
            where, what = self.imports[name]
            return module(where, self.root).within(what)
        package = name not in self.definitions and self.path.name == "__init__.py"
        part = self._file([*self._package(), name]) if package else None
        return (self.path, name) if part is None else (part, LOOSE)

    @cached_property
    def known(self) -> dict[str, Found]:
        """Where the names imported at the top are defined."""
        return {name: self.within(name) for name in self.imports}

    @cache  # noqa: B019 - modules are kept anyhow
    def uses(self, name: str) -> frozenset[Found]:
        """What the statements of a definition refer to."""
        nodes, inner = [node for statement in self.definitions[name] for node in ast.walk(statement)], {}
        for statement in (node for node in nodes if isinstance(node, Import)):
            for bound, (where, what) in self.imported(statement).items():
                inner[bound] = module(where, self.root).within(what)
        known, found = self.known | inner, set()
        modules = {bound: where for bound, (where, what) in known.items() if what == LOOSE}
        parts = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for node in (node for node in nodes if isinstance(node, ast.Name)):
            if node.id in modules and id(node) in parts:
                found.add((modules[node.id], parts[id(node)]))
            elif node.id in modules:  # handed on as it is
                found |= {(modules[node.id], each) for each in module(modules[node.id], self.root).definitions}
            elif node.id in known or node.id in self.definitions:
                found.add(known.get(node.id, (self.path, node.id)))
        return frozenset(found)

    @cache  # noqa: B019
    def digest(self, name: str) -> str:
        """The hash of what a definition does."""
        return hashlib.sha256("".join(map(_dumped, self.definitions[name])).encode()).hexdigest()


def _dumped(statement: ast.stmt) -> str:
    """`ast.dump` as Python 3.11 writes it: later versions add parameters of types, or leave out what is empty."""
    empty = {"show_empty": True} if sys.version_info >= (3, 13) else {}
    return ast.dump(statement, **empty).replace(", type_params=[]", "")


def _without_texts(path: Path) -> ast.Module:
    """The syntax tree of a file without docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            body[0] = ast.Pass() if isinstance(body[0].value, ast.Constant) else body[0]
    return tree


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements at the top of a module, those under a condition that imports among them."""
    for statement in body:
        inner = [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]
        if isinstance(statement, ast.If | ast.Try) and any(isinstance(each, Import) for each in inner):
            yield from _flat(inner)
        else:
            yield statement


def _bound(statement: ast.stmt) -> list[str]:
    """The names that a statement binds, `LOOSE` for none."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    targets = [*getattr(statement, "targets", []), *([statement.target] if hasattr(statement, "target") else [])]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)] or [LOOSE]


@cache
def module(path: Path, root: Path) -> Module:
    """The module of a file, read once."""
    return Module(path, root)


def reached(entries: Iterable[str], root: Path) -> dict[Found, str]:
    """Every definition that the entries, files below ``root``, lead to, and its hash."""
    found: dict[Found, str] = {}
    todo: list[Found] = []
    for entry in entries:
        path, _, name = entry.partition(":")
        files = sorted((root / path).rglob("*.py")) if (root / path).is_dir() else [root / path]
        todo += [(file, each) for file in files for each in ([name] if name else module(file, root).definitions)]
    while todo:
        where, asked = todo.pop()
        path, name = module(where, root).within(asked)
        here = module(path, root)
        name = name if name in here.definitions else "__getattr__"  # of a lazy package
        if (path, name) not in found and name in here.definitions:
            found[path, name] = here.digest(name)
            todo += [(path, LOOSE), *here.uses(name)]
    return found
