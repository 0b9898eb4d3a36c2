"""The plan of both packages, read from their sources: layers, no cycles, nothing unused."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import eigenprobe as ep

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
LIBRARY, LABORATORY = "eigenprobe", "eigenprobe_lab"
ORDER = {
    LIBRARY: (
        *("errors", "host", "layers", "points", "basis", "io", "neighbors", "cloud"),
        *(
            "smoothers",
            "eigen",
            "geometry",
            "probes",
            "networks",
            "extensions",
            "training",
            "pretrained",
            "manifold",
        ),
        *("decomposition", "operators", "apps", "interop", "evaluation", "viz", "datasets", "cli"),
    ),
    LABORATORY: ("shapes", "evaluation", "factory", "paper", "cli"),
}
# Convenience methods import what they show, read or extend with, inside functions; a basis keeps
# what made it.
UPWARD = {
    *(
        ("eigenprobe.basis", folder)
        for folder in ("decomposition", "extensions", "geometry", "viz")
    ),
    *(("eigenprobe.basis", folder) for folder in ("neighbors", "smoothers")),
    *(("eigenprobe.points", folder) for folder in ("io", "geometry")),
    ("eigenprobe.pretrained.model", "viz"),
    *((f"eigenprobe.manifold.{name}", "viz") for name in ("eigenmaps",)),
}
# Names that an interface asks for: of solvers, notebooks, and of a server and a codec of the
# standard library.
PROTOCOL = {"suits", "solve", "_repr_html_", "_repr_png_", "do_GET", "do_POST", "decompress"}
# Decorators that enter a function in a table from which it is called.
ENTERED = ("recipe_kind(", "register", "extension_kind(", "family(")
CALLED = [LIBRARY, LABORATORY]


@dataclass(frozen=True)
class Module:
    name: str  # dotted
    path: Path
    tree: ast.Module

    @property
    def root(self) -> str:
        return self.name.split(".")[0]

    @property
    def folder(self) -> str:
        """The folder or module directly below the package; empty for the package itself."""
        return (self.name.split(".") + [""])[1]

    @property
    def package(self) -> str:
        """The dotted package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    module: str  # dotted
    name: str | None  # what is taken from it; None: the module itself
    line: int
    typing: bool  # only under TYPE_CHECKING
    inside: bool  # in a function


@cache
def modules() -> dict[str, Module]:
    found = {}
    for package in (LIBRARY, LABORATORY):
        for path in sorted((SOURCES / package).rglob("*.py")):
            parts = path.relative_to(SOURCES).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path, ast.parse(path.read_text()))
    return found


def layered() -> list[Module]:
    """All modules but the two packages' own, which hand names on, and ``__main__``."""
    return [module for module in modules().values() if module.folder not in ("", "__main__")]


@cache
def imports(name: str) -> list[Import]:
    """All imports of modules of both packages, those inside functions included."""
    module, found = modules()[name], []
    blocks = [
        n
        for n in ast.walk(module.tree)
        if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)
    ]
    typing = {id(n) for block in blocks for child in block.body for n in ast.walk(child)}
    functions = [
        n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    inside = {id(n) for function in functions for n in ast.walk(function)}
    for node in ast.walk(module.tree):
        where = (getattr(node, "lineno", 0), id(node) in typing, id(node) in inside)
        if isinstance(node, ast.Import):
            own = [alias.name for alias in node.names if alias.name.split(".")[0] in CALLED]
            found += [Import(target, None, *where) for target in own]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
            if base.split(".")[0] not in CALLED:
                continue
            for alias in node.names:
                below = f"{base}.{alias.name}"
                known = below in modules()
                found.append(
                    Import(below if known else base, None if known else alias.name, *where)
                )
    return found


def _place(module: str) -> tuple[str, str]:
    """Package and folder of a dotted name; the package itself counts as its first folder."""
    root, *rest = module.split(".")
    return root, rest[0] if rest else ORDER[root][0]


def test_every_folder_has_a_place_in_the_order() -> None:
    for package, order in ORDER.items():
        assert {module.folder for module in layered() if module.root == package} <= set(order)


def test_imports_follow_the_order_of_the_folders() -> None:
    """Inside functions too; the library never imports the laboratory."""
    wrong = []
    for module in layered():
        for each in imports(module.name):
            root, folder = _place(each.module)
            if root != module.root:
                above = module.root == LIBRARY
            else:
                order = ORDER[root]
                above = order.index(folder) > order.index(module.folder)
            if (
                each.module == root
                and each.name not in (None, "__version__")
                and root == module.root
            ):
                above = True  # the package's own list of names lies above all of its folders
            allowed = (each.inside or each.typing) and (module.name, folder) in UPWARD
            if above and not allowed:
                wrong.append(
                    f"{module.name}:{each.line} takes {each.name or ''} from {each.module}"
                )
    assert not wrong, "\n".join(wrong)


def test_no_cycle_of_imports() -> None:
    graph = {
        name: {each.module for each in imports(name) if not each.typing and not each.inside}
        - {name}
        for name in modules()
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, "cycle: " + " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*path, name))
            done.add(name)

    for module in layered():
        visit(module.name, ())


def test_no_private_name_crosses_a_folder() -> None:
    wrong = []
    for module in layered():
        for each in imports(module.name):
            private = [
                part
                for part in (*each.module.split("."), each.name or "")
                if re.match(r"_(?!_)", part)
            ]
            if private and modules()[each.module].path.parent != module.path.parent:
                wrong.append(f"{module.name}:{each.line} takes {private[0]} of {each.module}")
    assert not wrong, "\n".join(wrong)


# --- what is defined, and what is used ---


@dataclass(frozen=True)
class Definition:
    module: str
    owner: str  # the class of a method, else ""
    name: str
    node: ast.AST

    @property
    def full(self) -> str:
        return ".".join(part for part in (self.module, self.owner, self.name) if part)


def _targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return (
        [node.target.id]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        else []
    )


def definitions() -> list[Definition]:
    """Functions, classes and constants of modules, and methods of their classes."""
    found = []
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.append(Definition(module.name, "", node.name, node))
            found += [Definition(module.name, "", name, node) for name in _targets(node)]
            if isinstance(node, ast.ClassDef):
                methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
                found += [
                    Definition(module.name, node.name, child.name, child) for child in methods
                ]
    return [each for each in found if not each.name.startswith("__")]


@dataclass(frozen=True)
class Use:
    # name: read in its own module; import; of_module: read from an imported module; attribute;
    # string
    kind: str
    file: str
    line: int


def _uses_in(tree: ast.Module, file: str) -> Iterator[tuple[str, Use]]:
    """Every identifier that is read, and strings that are identifiers (``getattr``, tables of
    names).
    """
    ours = (LIBRARY, "benchmarks")
    own = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if isinstance(node, ast.Import) or node.level or (node.module or "").startswith(ours)
    }
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, Use("name", file, node.lineno)
        elif isinstance(node, ast.Attribute):
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            of_module = isinstance(root, ast.Name) and root.id in own
            yield node.attr, Use("of_module" if of_module else "attribute", file, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, Use("import", file, node.lineno)) for alias in node.names)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        ):
            for word in (
                node.value.replace(":", ".").split(".")
                if re.fullmatch(r"[\w.:]+", node.value)
                else ()
            ):
                yield word, Use("string", file, node.lineno)


@cache
def uses() -> dict[str, list[Use]]:
    """Identifier -> where it is used. ``__init__`` files pass names on, which is no use, nor are
    lists of names.
    """
    found = defaultdict(list)
    for module in modules().values():
        inside = list(_uses_in(module.tree, module.name))
        if module.path.name == "__init__.py":
            read = {word for word, use in inside if use.kind == "name"}
            inside = [
                (word, use)
                for word, use in inside
                if use.kind not in ("string", "import") or word in read
            ]
        for word, use in inside:
            found[word].append(use)
    for folder in ("benchmarks", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for word, use in _uses_in(ast.parse(path.read_text()), str(path)):
                found[word].append(use)
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
            for word in re.findall(r"[A-Za-z_]\w*", block):
                found[word].append(Use("string", str(page), 0))
    for word in re.findall(
        r"eigenprobe[\w.]*:(\w+)", (ROOT / "pyproject.toml").read_text()
    ):  # entry points
        found[word].append(Use("string", "pyproject.toml", 0))
    return found


@cache
def public_names() -> set[str]:
    """Of the package's list, of the lists of the modules in it, and of the API page."""
    names = set(ep.__all__)
    for name in ep.__all__:
        names |= set(getattr(getattr(ep, name), "__all__", ()))
    pages = re.findall(r"<!-- api: (\S+) -->", (ROOT / "docs" / "api.md").read_text())
    return names | {page.rpartition(".")[2] for page in pages}


def _inherited(each: Definition) -> bool:
    """Whether a method answers to a base class from elsewhere (Lightning's hooks, torch's
    forward).
    """
    cls = getattr(importlib.import_module(each.module), each.owner)
    bases = [base for base in cls.__mro__[1:] if not base.__module__.startswith(LIBRARY)]
    return any(hasattr(base, each.name) for base in bases)


def _unused(each: Definition) -> bool:
    first, last = each.node.lineno, each.node.end_lineno  # type: ignore[attr-defined]
    for use in uses()[each.name]:
        here = use.file == each.module
        if here and first <= use.line <= last:
            continue
        known = (
            (here and not each.owner)
            if use.kind == "name"
            else (use.kind != "attribute" or bool(each.owner))
        )
        if known:
            return False
    entered = [
        node
        for node in getattr(each.node, "decorator_list", [])
        if ast.unparse(node).startswith(ENTERED)
    ]
    if each.name in PROTOCOL or entered:
        return False
    documented = each.owner in public_names() if each.owner else each.name in public_names()
    return not documented and not (each.owner and _inherited(each))


def test_everything_is_used() -> None:
    unused = sorted(each.full for each in definitions() if _unused(each))
    assert not unused, "neither used nor documented: " + ", ".join(unused)


# --- what a call passes ---


FILES = 23  # that a clean sphere passes
FOUNDATIONS = {"errors", "host", "layers", ""}


def traced(call: Callable[[], object]) -> list[str]:
    """Files of both packages in the order in which a function of theirs was first entered, without
    foundations.
    """
    entered: dict[str, None] = {}
    root = str(SOURCES) + "/"

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes, which run when something is imported, are not optimised.
        function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and function and code.co_filename.startswith(root):
            entered.setdefault(code.co_filename.removeprefix(root))

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    names = [
        (file, (Path(file).with_suffix("").parts + ("",))[1].replace("__init__", ""))
        for file in entered
    ]
    return [file for file, folder in names if folder not in FOUNDATIONS]


def _sphere(n: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_decompose_is_followed_from_file_to_file() -> None:
    """A reader who follows a call opens few files, and data never goes back up."""
    files = traced(lambda: ep.decompose(_sphere(1500), k=10))
    assert len(files) <= FILES, f"{len(files)} files: {', '.join(files)}"


def test_the_papers_way_does_not_run_through_ours() -> None:
    from dataclasses import replace

    from eigenprobe.io.shapes import Shape
    from eigenprobe.probes.probes import Probes
    from eigenprobe_lab.evaluation.samples import Sample
    from eigenprobe_lab.paper import overfit

    x = _sphere(300)
    known = np.stack([np.ones(300), *x.T, *(x * np.roll(x, 1, 1)).T], 1)
    sample = Sample(
        Shape(x, None, "sphere"), x, known, np.arange(7.0), np.arange(300), np.full(300, 1 / 300)
    )
    probes = replace(overfit.SETTINGS.probes, paper=Probes(60, steps=10, k=10, sigma=(0.05, 0.3)))
    settings = replace(
        overfit.SETTINGS, preset="tiny", size=200, steps=2, optimisation=None, probes=probes
    )
    files = traced(lambda: overfit.learn_their_way(sample, 7, settings))
    ours = [file for file in files if re.search(r"evaluation/(fitted|pretrained)\.py", file)]
    assert files and not ours


# --- the page ---


def test_the_page_names_the_folders_in_order() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for package, order in ORDER.items():
        section = text.split(f"\n## `{package}`")[1].split("\n## ")[0]
        there = {module.folder for module in layered() if module.root == package}
        assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [
            folder for folder in order if folder in there
        ]


def test_the_ways_are_lists_of_functions_that_there_are() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    ways = text.split("## The ways")[1].split("\n## ")[0]
    known = {(each.module.rpartition(".")[2], each.name) for each in definitions()}
    named = set(re.findall(r"`(\w+)\.(\w+)`", ways))
    others = {("ep", "decompose"), ("index", "html"), ("summary", "csv")}
    assert len(named) > 20 and not named - known - others


@pytest.mark.parametrize("package", [LIBRARY, LABORATORY])
def test_a_check_finds_what_it_looks_for(package: str) -> None:
    """That the reader of imports sees something at all."""
    taken = {
        each.module
        for module in layered()
        if module.root == package
        for each in imports(module.name)
    }
    assert len(taken) > 20 and any(
        each.inside for module in layered() for each in imports(module.name)
    )
