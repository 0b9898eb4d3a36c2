"""The plan of the house, read from the sources: order of the rooms, nothing unused, nothing twice, nothing too long."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import keyword
import re
import sys
import threading
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import numpy as np

import eigenprobe as ep

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "eigenprobe"
ORDER = (
    *("errors", "annotations", "host", "cloud", "basis", "graph", "smoothers", "eigen", "probes"),
    *("extensions", "geometry", "networks", "training", "pretrained", "estimators", "decomposition"),
    *("operators", "apps", "interop", "viz", "evaluation", "paper", "cli"),
)
LINES, PARAMETERS, MODULE, SAME = 60, 8, 350, 10
WHOLE = 24_945  # lines of src; 15,000 are wanted

# Public constructors and front doors: their parameters are what a user may set, their docstrings explain each.
FRONT_DOORS = {
    *("decomposition.front.decompose", "operators.matrices.laplacian"),
    "eigen.solve.solve",
    "estimators.eigenmaps.OptimalApproximationEigenmaps.__init__",
    *("viz.report.write_report", "viz.scatter.write_scatter"),  # documented in docs/api.md
    # commands: every parameter is an option
    *("cli.clouds.decompose", "cli.training.encode", "cli.tables.embed", "cli.evaluate.surfaces"),
    *("cli.experiments.overfit", "cli.experiments.generalisation", "cli.experiments.images"),
    *("paper.reproduction.reproduce_overfit", "paper.reproduction.reproduce_images"),
}
# Methods and functions that an interface asks for in several modules under one name.
PROTOCOL = {"suits", "solve", "run", "_repr_html_", "_repr_png_"}  # solvers; experiments; notebooks
# Commands are named like what they run.
COMMANDS = {"decompose", "embed", "overfit", "toy1d", "train", "view"}
# Rooms below that are reached by a name in a string, and where: pictures, files, the classes of saved extensions.
BY_NAME = {
    *(("basis", room) for room in ("estimators", "extensions", "geometry", "networks", "pretrained", "viz")),
    *(("cloud", "geometry"), ("pretrained.model", "viz")),
}
# Decorators that enter a function in a table from which it is called.
ENTERED = ("recipe_kind(",)
# Called by name from outside Python: a console script, a documentation tool, the standard library's server.
ENTRY_POINTS = {"cli.main", "viz.viewer._Handler.do_GET", "viz.viewer._Handler.do_POST"}


@dataclass(frozen=True)
class Module:
    name: str  # dotted, below the package; "" for the package itself
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        return self.name.split(".")[0]

    @property
    def package(self) -> str:
        """The dotted package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @property
    def exempt(self) -> bool:
        return self.name in ("", "__main__")


@dataclass(frozen=True)
class Import:
    module: str  # dotted, below the package
    name: str | None  # what is taken from it; None: the module itself
    line: int
    typing: bool  # only under TYPE_CHECKING


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(path.read_text()))
    return found


def _typing_only(tree: ast.Module) -> set[int]:
    """Identities of the nodes under ``if TYPE_CHECKING``."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {id(node) for block in blocks for child in block.body for node in ast.walk(child)}


@cache
def imports(name: str) -> list[Import]:
    """All imports of the package's own modules, those inside functions included."""
    module, known = modules()[name], modules()
    typing, found = _typing_only(module.tree), []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "eigenprobe":
                    found.append(Import(alias.name.partition(".")[2], None, node.lineno, id(node) in typing))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.package.split(".") if module.package else []
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, *([base] if base else [])])
            elif base.split(".")[0] == "eigenprobe":
                base = base.partition(".")[2]
            else:
                continue
            for alias in node.names:
                below = f"{base}.{alias.name}".lstrip(".")
                target, taken = (below, None) if below in known else (base, alias.name)
                found.append(Import(target, taken, node.lineno, id(node) in typing))
    return found


def _above(each: Import, room: str) -> bool:
    """Whether an import takes from the rooms above (or from the package itself no more than its version)."""
    if not each.module:
        return each.name == "__version__"
    return ORDER.index(each.module.split(".")[0]) <= ORDER.index(room)


def test_imports_follow_the_order_of_the_rooms() -> None:
    rooms = {module.room for module in modules().values() if not module.exempt}
    assert rooms <= set(ORDER), f"rooms without a place in the order: {sorted(rooms - set(ORDER))}"
    wrong = [
        f"{module.path.relative_to(PACKAGE)}:{each.line} takes from {each.module or each.name}"
        for module in modules().values()
        if not module.exempt
        for each in imports(module.name)
        if not _above(each, module.room)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_cycle() -> None:
    graph = {name: {i.module for i in imports(name) if not i.typing and i.module} - {name} for name in modules()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, "cycle: " + " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*path, name))
            done.add(name)

    for name, module in modules().items():
        if not module.exempt:
            visit(name, ())


def test_no_private_name_crosses_a_folder() -> None:
    wrong = []
    for module in modules().values():
        for each in imports(module.name):
            private = [part for part in (*each.module.split("."), each.name or "") if re.match(r"_(?!_)", part)]
            other = modules()[each.module]
            if private and not module.exempt and other.path.parent != module.path.parent:
                wrong.append(f"{module.path.relative_to(PACKAGE)}:{each.line} takes {private[0]} of {each.module}")
    assert not wrong, "\n".join(wrong)


def test_rooms_below_are_reached_by_name_in_few_places() -> None:
    """A name in a string (``import_module``) goes round the order of the rooms: only what draws, reads files or loads a
    saved extension may."""
    found = set()
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and not module.exempt:
                name, _, function = node.value.removeprefix("eigenprobe.").partition(":")
                if name and name in modules() and (function or node.value.startswith("eigenprobe.")):
                    found.add((module.name, name.split(".")[0]))
    below = {(name, room) for name, room in found if ORDER.index(room) > ORDER.index(modules()[name].room)}
    assert below == BY_NAME


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
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


@cache
def definitions() -> list[Definition]:
    """Functions, classes and constants of modules, and methods of their classes."""
    found = []
    for module in modules().values():
        for node in module.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.append(Definition(module.name, "", node.name, node))
            found += [Definition(module.name, "", name, node) for name in _targets(node)]
            if isinstance(node, ast.ClassDef):
                methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
                found += [Definition(module.name, node.name, child.name, child) for child in methods]
    return [each for each in found if not each.name.startswith("__")]


@dataclass(frozen=True)
class Use:
    kind: str  # name: read in its own module; import; of_module: read from an imported module; attribute; string
    file: str
    line: int


def _uses_in(tree: ast.Module, file: str) -> Iterator[tuple[str, Use]]:
    """Every identifier that is read, and strings that are identifiers (``getattr``, tables of names)."""
    own = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if isinstance(node, ast.Import) or node.level or (node.module or "").startswith(("eigenprobe", "benchmarks"))
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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            for word in node.value.replace(":", ".").split(".") if re.fullmatch(r"[\w.:]+", node.value) else ():
                yield word, Use("string", file, node.lineno)


@cache
def uses() -> dict[str, list[Use]]:
    """Identifier -> where it is used. ``__init__`` files pass names on, which is no use, nor are lists of names."""
    found = defaultdict(list)
    for module in modules().values():
        inside = list(_uses_in(module.tree, module.name))
        if module.path.name == "__init__.py":
            read = {word for word, use in inside if use.kind == "name"}
            passed_on = ("string", "import")
            inside = [(word, use) for word, use in inside if use.kind not in passed_on or word in read]
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
    """Whether a method answers to a base class from elsewhere (Lightning's hooks, torch's forward)."""
    cls = getattr(importlib.import_module(f"eigenprobe.{each.module}"), each.owner)
    bases = [base for base in cls.__mro__[1:] if not base.__module__.startswith("eigenprobe")]
    return any(hasattr(base, each.name) for base in bases)


def _unused(each: Definition) -> bool:
    first, last = each.node.lineno, each.node.end_lineno  # type: ignore[attr-defined]
    for use in uses()[each.name]:
        here = use.file == each.module
        if here and first <= use.line <= last:
            continue
        if use.kind == "name":
            known = here and not each.owner
        else:
            known = use.kind != "attribute" or bool(each.owner)
        if known:
            return False
    entered = [node for node in getattr(each.node, "decorator_list", []) if ast.unparse(node).startswith(ENTERED)]
    if each.full in ENTRY_POINTS or each.name in PROTOCOL or entered:
        return False
    documented = each.owner in public_names() if each.owner else each.name in public_names()
    return not documented and not (each.owner and _inherited(each))


def test_everything_is_used() -> None:
    unused = sorted(each.full for each in definitions() if _unused(each))
    assert not unused, "neither used nor documented: " + ", ".join(unused)


def test_one_name_one_thing() -> None:
    owners = defaultdict(set)
    for each in definitions():
        if each.name.startswith("_"):
            continue
        command = each.name in COMMANDS and each.module.startswith("cli")
        if not each.owner and not command and isinstance(each.node, (ast.FunctionDef, ast.ClassDef)):
            owners[each.name].add(each.module)
    twice = {name: sorted(where) for name, where in owners.items() if len(where) > 1 and name not in PROTOCOL}
    assert not twice, "\n".join(f"{name}: {', '.join(where)}" for name, where in sorted(twice.items()))


# --- sizes ---


def _functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for module in modules().values():

        def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
            for child in ast.iter_child_nodes(node):
                name = f"{prefix}.{child.name}" if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else prefix
                if isinstance(child, ast.FunctionDef):
                    yield name, child
                yield from walk(child, name)

        yield from walk(module.tree, module.name)


def test_functions_are_short_and_take_few_parameters() -> None:
    wrong = []
    for name, node in _functions():
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        given = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len([a for a in given if a not in ("self", "cls")]) + bool(node.args.vararg) + bool(node.args.kwarg)
        if name not in FRONT_DOORS and (lines > LINES or count > PARAMETERS):
            wrong.append(f"{name}: {lines} lines, {count} parameters")
    assert not wrong, "\n".join(wrong)


def test_front_doors_exist() -> None:
    assert {name for name, _ in _functions()} >= FRONT_DOORS | ENTRY_POINTS


def test_modules_and_the_whole_are_small() -> None:
    sizes = {name: len(module.path.read_text().splitlines()) for name, module in modules().items()}
    assert not {name: size for name, size in sizes.items() if size > MODULE}
    total = sum(sizes.values())
    print(f"{total} lines in {len(sizes)} modules")
    assert total <= WHOLE, f"{total} lines, at most {WHOLE}: the whole only gets smaller"


# --- repetition ---


def _shapes(path: Path) -> list[tuple[int, str]]:
    """Line numbers and shapes of the lines: names, strings and numbers folded; imports and docstrings left out."""
    text = path.read_text()
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        prose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or prose:
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: dict[int, list[str]] = defaultdict(list)
    folded = {tokenize.STRING: "s", tokenize.NUMBER: "0", getattr(tokenize, "FSTRING_START", -1): "s"}
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and token.start[0] not in left_out:
            name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            lines[token.start[0]].append("n" if name else folded.get(token.type, token.string))
    return [(line, " ".join(tokens)) for line, tokens in sorted(lines.items())]


def test_no_ten_lines_of_one_shape_twice() -> None:
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for module in modules().values():
        shapes = _shapes(module.path)
        for at in range(len(shapes) - SAME + 1):
            window = tuple(shape for _, shape in shapes[at : at + SAME])
            if len(set(window)) >= SAME // 2:  # a table of values repeats one shape by nature
                places[window].append((str(module.path.relative_to(PACKAGE)), shapes[at][0]))
    twice = {window: where for window, where in places.items() if len(where) > 1}
    assert not twice, "\n".join(" and ".join(f"{path}:{line}" for path, line in where) for where in twice.values())


# --- the ways of docs/architecture.md ---

PAGE = ROOT / "docs" / "architecture.md"
CONSTANTS = (
    *("smoothers.stencil", "smoothers.balanced", "smoothers.variable", "smoothers.neighbourhood"),
    *("eigen.filtered", "eigen.inverse", "eigen.nested", "eigen.multigrid", "eigen.stacked"),
    *("graph.suspicion", "pretrained.neighbours"),
)
FOUNDATIONS = {"errors.py", "annotations.py", "host/files.py", "host/progress.py", "host/threads.py", "__init__.py"}


@dataclass(frozen=True)
class Step:
    """``3. `room/file.py` `function` (`other.py`, ...): ...`` of a way; the others are of the same folder."""

    file: str
    function: str
    others: frozenset[str]


def way(title: str) -> list[Step]:
    """The steps under a heading of the page."""
    section = PAGE.read_text().split(f"\n### {title}\n")[1].split("\n#")[0]
    steps = []
    for entry in re.findall(r"^\d+\. (.*(?:\n   .*)*)", section, re.M):
        match = re.match(r"`([\w/]+\.py)` `([\w.]+)`(?: \(([^)]*)\))?:", entry)
        assert match, f"expected '`file.py` `function` (`other.py`): ...', got {entry!r}"
        folder = match[1].rpartition("/")[0]
        others = re.findall(r"`(\w+\.py)`", match[3] or "")
        steps.append(Step(match[1], match[2], frozenset(f"{folder}/{other}".lstrip("/") for other in others)))
    return steps


def traced(call: Callable[[], object]) -> list[tuple[str, str]]:
    """Files of the package and the functions entered there, in the order of their first calls."""
    entered: dict[tuple[str, str], None] = {}
    root = str(PACKAGE) + "/"

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes, which run when something is imported, are not optimised.
        function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and function and code.co_filename.startswith(root):
            entered.setdefault((code.co_filename.removeprefix(root), code.co_qualname))

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(entered)


def _follows(title: str, call: Callable[[], object]) -> None:
    """Whether a call takes the way that the page draws."""
    steps = way(title)
    assert 1 < len(steps) <= 10
    entered = traced(call)
    named = {file for step in steps for file in {step.file, *step.others}}
    taken = {file for file, _ in entered} - FOUNDATIONS
    assert taken == named, f"not drawn: {sorted(taken - named)}, not taken: {sorted(named - taken)}"
    functions = [(step.file, step.function) for step in steps]
    assert not (idle := [each for each in functions if each not in entered]), f"never entered: {idle}"
    assert functions == sorted(functions, key=entered.index)


def _sphere(n: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_the_page_names_the_rooms_in_order() -> None:
    house = PAGE.read_text().split("\n## The house\n")[1].split("\n## ")[0]
    rooms = {module.room for module in modules().values() if not module.exempt}
    assert re.findall(r"^- `(\w+)`: ", house, re.M) == [room for room in ORDER if room in rooms]


def test_every_constant_has_a_derivation_or_an_ablation() -> None:
    """Frozen dataclasses with an instance in capitals are groups of constants; the page has a line for each field."""
    page = (ROOT / "docs" / "constants.md").read_text()
    missing = []
    for name in CONSTANTS:
        module = importlib.import_module(f"eigenprobe.{name}")
        groups = {type(value) for key, value in vars(module).items() if key.isupper() and is_dataclass(value)}
        assert groups, f"{name} has no group of constants"
        for group in groups:
            assert f"`{group.__name__}`" in page
            missing += [f"{group.__name__}.{f.name}" for f in fields(group) if not _explained(f.name, page)]
    assert not missing, missing


def _explained(name: str, page: str) -> bool:
    heads = re.findall(r"^- ((?:`\w+`(?:, )?)+):", page, re.M)
    return any(f"`{name}`" in head for head in heads)


def test_traced_decompose() -> None:
    _follows("decompose", lambda: ep.decompose(_sphere(1500), k=10))


def test_traced_fit() -> None:
    _follows("fit", lambda: ep.decompose(_sphere(700), k=5, method="network", steps=2))


def test_traced_encode() -> None:
    model = ep.SpectralModel.from_pretrained("surface")
    _follows("encode", lambda: model.encode(_sphere(700), k=10))


def test_traced_pretraining(tmp_path: Path) -> None:
    from eigenprobe.networks.spectral import SpectralConfig
    from eigenprobe_lab.factory.pretrain import PretrainSettings, Schedule, pretrain
    from eigenprobe_lab.shapes.stream import ShapeSettings

    shapes = ShapeSettings(
        tokens=600, typical=200, sizes=(200, 300), chunk=4, chunks=1, renew=1, families=["biped", "blob"]
    )
    settings = PretrainSettings(
        network=SpectralConfig(outputs=8, width=48, layers=1, heads=2, feedforward=32, shape=16),
        shapes=shapes,
        schedule=Schedule(minutes=60, steps=2),
        precision="32",
        validate_every=0,
        held_out=2,
    )
    _follows("pretraining", lambda: pretrain(settings, tmp_path))
