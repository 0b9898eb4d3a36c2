"""Do the tests bite? One-line changes of the mathematical core, each of which a test that runs the
line should notice.

    python -m benchmarks.mutants --own              16 mutants of every folder against its own
                                                    tests: an hour; writes mutants.json
    python -m benchmarks.mutants graph --own        those of one folder: minutes; rows of others
                                                    that were measured with this seed stay
    python -m benchmarks.mutants probes --each 0    all mutants of one folder, against all tests

Changes are made by cosmic-ray's operators (the extra ``mutants``): + and -, * and /, powers,
comparisons turned round, signs and negations dropped, True and False, and and or, numbers one more
or less, loops that do not run. Left out: annotations, messages and warnings, assertions
(``zip(strict=)`` is one), defaults of arguments, comparisons that differ where two numbers are
equal, and operators that raise a TypeError wherever they are tried. Constants (numbers of modules
and of settings) are made ten times as large or as small, one for four other mutants, and counted
apart.

`TESTS` are collected once and run once as they are, to see which lines each of them runs. A mutant
is a forked process in which the code of one function is exchanged; nothing on disk is touched. It
meets the tests that run its line, those of its own room first and of these those that run the
fewest lines, until they would take `PATIENCE` seconds without the change. It is killed where one
fails, or where they take five times as long. What survives and is in `EQUIVALENT` changes nothing
that could be tested: both scores are told, with it and without.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, takewhile
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
import torch

from benchmarks.catalogue import ROOT
from benchmarks.record import facts, results_file, write

ROOMS = (  # the mathematical folders
    *("search", "sampling", "graph", "shortcuts", "smoothers", "eigen", "probes", "extensions"),
    *("estimators", "geometry", "decomposition", "operators", "apps", "interop"),
)
PACKAGE = ROOT / "src" / "eigenprobe"
EXCHANGED = (
    *(
        "BinaryOperator_Add_Sub",
        "BinaryOperator_Sub_Add",
        "BinaryOperator_Mul_Div",
        "BinaryOperator_Div_Mul",
    ),
    *("BinaryOperator_Pow_Mul", "BinaryOperator_FloorDiv_Mul", "BinaryOperator_Mod_Mul"),
    *("BinaryOperator_BitAnd_BitOr", "BinaryOperator_BitOr_BitAnd"),
    *("ComparisonOperator_Lt_GtE", "ComparisonOperator_LtE_Gt", "ComparisonOperator_Gt_LtE"),
    *("ComparisonOperator_GtE_Lt", "ComparisonOperator_Eq_NotEq", "ComparisonOperator_NotEq_Eq"),
    *("ComparisonOperator_Is_IsNot", "ComparisonOperator_IsNot_Is"),
    *("UnaryOperator_Delete_USub", "UnaryOperator_Delete_Invert", "UnaryOperator_Delete_Not"),
    *("TrueWithFalse", "FalseWithTrue", "AndWithOr", "OrWithAnd"),
)
OPERATORS = (
    *(f"core/Replace{name}" for name in EXCHANGED),
    "core/NumberReplacer",
    "core/ZeroIterationForLoop",
)
TESTS = (  # tried after those of a room's own
    "test_analytic.py test_basis.py networks/test_diffusion.py trust/test_damaged_files.py "
    "trust/test_inputs.py trust/test_attacks.py"
)
# Changes that no test could notice, one in each line: the module, what is there before and after,
# and why.
EQUIVALENT = [
    line.split("\t")
    for line in Path(__file__).with_name("equivalent.tsv").read_text().splitlines()[1:]
]
PATIENCE = 25.0  # seconds of tests that a mutant meets at most
Test = tuple[float, set[tuple[str, int]]]  # seconds, and the lines (file, number) that it runs


@dataclass(frozen=True)
class Constant:
    """A number of a module, or of the settings in it, and what it becomes."""

    path: Path
    name: str
    owner: str | None  # the class of settings that it is a field of
    line: int
    value: float
    reason: str | None = None

    def __str__(self) -> str:
        name = self.name if self.owner is None else f"{self.owner}.{self.name}"
        return f"{self.path.relative_to(PACKAGE)}:{self.line}: {name} -> {self.value:g}"

    @property
    def lines(self) -> set[tuple[str, int]]:
        """The lines that name it, in its own module."""
        text = self.path.read_text().splitlines()
        return {
            (str(self.path), n)
            for n, line in enumerate(text, 1)
            if re.search(rf"\b{self.name}\b", line)
        }

    def install(self, functions: list[FunctionType]) -> None:
        """The other number wherever the name is known, and in all settings of the class."""
        module = importlib.import_module(_module_name(self.path))
        if self.owner is not None:
            for each in gc.get_objects():
                if type(each).__name__ == self.owner and type(each).__module__ == module.__name__:
                    object.__setattr__(each, self.name, self.value)
            return
        before = getattr(module, self.name)
        for other in [
            m for m in sys.modules.values() if getattr(m, "__name__", "").startswith("eigenprobe")
        ]:
            if vars(other).get(self.name) is before:
                setattr(other, self.name, self.value)


def _module_name(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    return f"eigenprobe.{name}"


def constants(room: str, seed: int) -> list[Constant]:
    """The numbers of a room in random order, each ten times as large or as small."""
    draw, found = random.Random(seed), []

    def number(node: ast.expr | None) -> float | None:
        known = isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
        # type: ignore[union-attr]
        return None if not known or isinstance(node.value, bool) or not node.value else node.value

    for path in sorted((PACKAGE / room).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                rows: list[Any] = [(node.targets[0].id, None, node, number(node.value))]
            elif isinstance(node, ast.ClassDef):
                rows = [
                    (field.target.id, node.name, field, number(field.value))
                    for field in node.body
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                ]
            else:
                continue
            for name, owner, at, value in rows:
                if value is not None:
                    other = value * 10 if draw.random() < 0.5 else value / 10
                    other = max(1, round(other)) if isinstance(value, int) else other
                    if other != value:
                        found.append(Constant(path, name, owner, at.lineno, other))
    draw.shuffle(found)
    return found


@dataclass(frozen=True)
class Mutant:
    """A module of the package, its source, the changed source and the line of the first
    difference.
    """

    path: Path
    source: str
    changed: str

    @cached_property
    def line(self) -> int:
        before, after = self.source.splitlines(), self.changed.splitlines()
        return next(i for i, (a, b) in enumerate(zip(before, after, strict=False), 1) if a != b)

    def __str__(self) -> str:
        before, after = (
            text.splitlines()[self.line - 1].strip() for text in (self.source, self.changed)
        )
        return f"{self.path.relative_to(PACKAGE)}:{self.line}: {before} -> {after}"

    @property
    def reason(self) -> str | None:
        """Why no test could notice the change, where that is known: what differs is looked at with
        its surroundings.
        """
        both = [text.splitlines()[self.line - 1].strip() for text in (self.source, self.changed)]
        start, end = (
            sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
            for texts in (both, [text[::-1] for text in both])
        )
        end = min(end, *(len(text) - start for text in both))
        change = " -> ".join(text[max(0, start - 16) : len(text) - end + 16] for text in both)
        place = self.path.relative_to(PACKAGE).as_posix()
        return next(
            (
                why
                for where, what, why in EQUIVALENT
                if re.match(where, place) and re.search(what, change)
            ),
            None,
        )

    @property
    def lines(self) -> set[tuple[str, int]]:
        """The lines of the statement that is changed."""
        spans = [
            (s.lineno, s.end_lineno or 0)
            for s in ast.walk(ast.parse(self.source))
            if isinstance(s, ast.stmt)
        ]
        first, last = min(
            (s for s in spans if s[0] <= self.line <= s[1]), key=lambda s: s[1] - s[0]
        )
        return {(str(self.path), number) for number in range(first, last + 1)}

    def fits(self, functions: list[FunctionType]) -> bool:
        """Whether the source on disk is still the one that was imported."""
        known = {
            (c.co_qualname, c.co_firstlineno)
            for c in _codes(compile(self.source, str(self.path), "exec"))
        }
        own = [f.__code__ for f in functions if f.__code__.co_filename == str(self.path)]
        return all((code.co_qualname, code.co_firstlineno) in known for code in own)

    def install(self, functions: list[FunctionType]) -> None:
        """The code of the changed functions in place of what they have."""
        codes = {
            (c.co_qualname, c.co_firstlineno): c
            for c in _codes(compile(self.changed, str(self.path), "exec"))
        }
        for function in functions:
            code = function.__code__
            if code.co_filename == str(self.path):
                function.__code__ = codes[code.co_qualname, code.co_firstlineno]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def mutants(room: str, seed: int) -> Iterator[Mutant]:
    """The mutants of a room in random order, without those that differ in what is left out only."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    sources = {path: path.read_text() for path in sorted((PACKAGE / room).rglob("*.py"))}
    places = []
    for path, source in sources.items():
        nodes = list(ast_nodes(get_ast(source)))
        for operator in (get_operator(name)() for name in OPERATORS):
            count = sum(len(list(operator.mutation_positions(node))) for node in nodes)
            places += [(path, operator, occurrence) for occurrence in range(count)]
    random.Random(seed).shuffle(places)
    for path, operator, occurrence in places:
        changed = mutate_code(sources[path], operator, occurrence)
        if changed is not None and _functions(changed) not in (None, _functions(sources[path])):
            yield Mutant(path, sources[path], changed)


@lru_cache(maxsize=64)
def _functions(source: str) -> str | None:
    """What the functions of a module do, without all that is left out; None where the source is
    none.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(None))
        if isinstance(node, ast.Raise):
            node.exc = None
        if isinstance(node, ast.Assert):
            node.test = ast.Constant(None)
        if isinstance(node, ast.Call):
            node.keywords = [each for each in node.keywords if each.arg != "strict"]
            node.args = (
                [] if isinstance(node.func, ast.Name) and node.func.id == "warn" else node.args
            )
        if isinstance(node, ast.arguments):  # the star of keywords is no product
            node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.posonlyargs, node.kwonlyargs, node.defaults, node.kw_defaults = [], [], [], []
    return "\n".join(ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def forked(work: Callable[[], Any], limit: float) -> int | None:
    """The exit status of the work in a process of its own, None where it takes longer."""
    child = os.fork()
    if not child:
        os.setsid()
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        try:
            work()
            os._exit(0)
        except SystemExit as end:
            os._exit(int(end.code or 0))
        except BaseException:
            os._exit(1)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


class Trial:
    """A pytest plugin: collected tests against mutants instead of the tests alone."""

    def __init__(self, rooms: list[str], each: int, seed: int, own: bool = False) -> None:
        self.rooms, self.each, self.seed, self.own = rooms, each, seed, own
        self.found: dict[str, Any] = {}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: Any) -> bool:
        for room in self.rooms:
            for path in sorted((PACKAGE / room).rglob("*.py")):
                importlib.import_module(_module_name(path))
        gc.collect()
        functions = [f for f in gc.get_objects() if isinstance(f, FunctionType)]
        functions = [f for f in functions if f.__code__.co_filename.startswith(str(PACKAGE))]
        items = {item.nodeid: item for item in session.items}
        known = self.trace(session, items)
        options = {"own": self.own, "each": self.each, "seed": self.seed}
        made = facts("mutants", "cpu", options, seed=self.seed, peers=("cosmic-ray",))
        for room in self.rooms:
            self.found[room] = self.score(session, items, known, functions, room)
            if self.own:
                path = results_file("mutants.json")
                before = json.loads(path.read_text()) if path.is_file() else {}
                same = before.get("own_tests") and before.get("seed") == self.seed
                rooms = (before["rooms"] if same else {}) | {room: self.found[room]}
                write(
                    "mutants.json",
                    made | {"own_tests": True, "rooms": {r: rooms[r] for r in ROOMS if r in rooms}},
                )
        return True

    def run(self, session: Any, items: list[Any], room: str) -> None:
        """The tests in turn until one fails: 1 where it is one of the room, 2 elsewhere."""
        for item, after in zip(items, [*items[1:], None], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failed:
                raise SystemExit(1 if f"/{room}/" in item.nodeid else 2)

    def trace(self, session: Any, items: dict[str, Any]) -> dict[str, Test]:
        """What every test runs; those that fail as they are could not tell anything."""
        rooms = tuple(str(PACKAGE / room) for room in self.rooms)

        def work(out: Path) -> None:
            tests: dict[str, Any] = {}
            seen: set[tuple[str, int]] = set()

            def local(frame: Any, event: str, _argument: Any) -> Any:
                seen.add((frame.f_code.co_filename, frame.f_lineno))
                return local

            def called(frame: Any, _event: str, _argument: Any) -> Any:
                return local if frame.f_code.co_filename.startswith(rooms) else None

            order = list(items.values())
            for item, after in zip(order, [*order[1:], None], strict=True):
                seen.clear()
                start = time.process_time()
                sys.settrace(called)
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                sys.settrace(None)
                tests[item.nodeid] = (time.process_time() - start, sorted(seen))
            out.write_text(json.dumps({"tests": tests, "failed": self.failed}))

        with tempfile.TemporaryDirectory() as folder:
            forked(lambda: work(Path(folder) / "seen.json"), 3600)
            read = json.loads((Path(folder) / "seen.json").read_text())
        if read["failed"]:
            print(
                f"left out, for they fail without any change: {' '.join(read['failed'])}",
                flush=True,
            )
        passed = {name: row for name, row in read["tests"].items() if name not in read["failed"]}
        known = {
            name: (seconds, {(p, n) for p, n in lines}) for name, (seconds, lines) in passed.items()
        }
        print(
            f"{len(known)} tests, {sum(seconds for seconds, _ in known.values()):.0f} s", flush=True
        )
        return known

    def score(
        self, session: Any, items: Any, known: dict[str, Test], functions: Any, room: str
    ) -> dict[str, Any]:
        """Killed mutants of a room, and what survived."""
        numbers = constants(room, self.seed)[: self.each // 4 or None]
        chosen: list[Mutant | Constant] = [
            *islice(mutants(room, self.seed), self.each or None),
            *numbers,
        ]
        survivors: list[str] = []
        same: dict[str, str] = {}
        own = 0
        for number, mutant in enumerate(chosen, 1):
            if isinstance(mutant, Mutant) and not mutant.fits(functions):
                raise SystemExit(f"{mutant.path} has changed since it was imported: start again")
            lines, total, meets = mutant.lines, 0.0, []
            meeting = (
                n for n in known if known[n][1] & lines and (not self.own or f"/{room}/" in n)
            )
            for name in sorted(meeting, key=lambda n: (f"/{room}/" not in n, len(known[n][1]))):
                if not meets or total + known[name][0] <= PATIENCE:
                    meets.append(items[name])
                    total += known[name][0]

            def work(mutant: Mutant | Constant = mutant, meets: list[Any] = meets) -> None:
                mutant.install(functions)
                self.run(session, meets, room)

            status = forked(work, 20 + 5 * total) if meets else 0  # what no test runs survives
            if status == 0 and mutant.reason:
                same[str(mutant)] = mutant.reason
            elif status == 0:
                survivors.append(str(mutant))
            own += isinstance(mutant, Mutant) and status != 0 and status != 2 << 8
            outcome = (
                "timeout"
                if status is None
                else "killed"
                if status
                else "the same"
                if mutant.reason
                else "survived"
            )
            print(
                f"{number:4d}/{len(chosen)} {outcome:9s} {len(meets):3d} tests  {mutant}",
                flush=True,
            )
        loose = [each for each in survivors if each in set(map(str, numbers))]
        survivors = [each for each in survivors if each not in loose]
        chosen = chosen[: len(chosen) - len(numbers)]
        killed, able = len(chosen) - len(survivors) - len(same), max(1, len(chosen) - len(same))
        told = f"{killed / len(chosen):.0%}, {killed / able:.0%} of those that change anything"
        told += f", {own} by its own tests"
        print(f"{room}: {killed} of {len(chosen)} killed, {told}", flush=True)
        print(
            f"{room}: {len(numbers) - len(loose)} of {len(numbers)} constants noticed", flush=True
        )
        counted = {"tried": len(numbers), "killed": len(numbers) - len(loose), "survivors": loose}
        return {
            "tried": len(chosen),
            "killed": killed,
            "own": own,
            "equivalent": same,
            "survivors": survivors,
            "constants": counted,
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)} (default: all)")
    parser.add_argument("--each", type=int, default=16, help="mutants of each room, 0 for all")
    parser.add_argument("--seed", type=int, default=1717, help="one that no test was written for")
    parser.add_argument(
        "--own", action="store_true", help="tests of their own room alone; writes the result"
    )
    options = parser.parse_args()
    if unknown := set(options.rooms) - set(ROOMS):
        parser.error(f"rooms are {', '.join(ROOMS)}, got {sorted(unknown)[0]}")
    torch.set_num_threads(1)
    os.chdir(ROOT)
    rooms = options.rooms or list(ROOMS)
    trial = Trial(rooms, options.each, options.seed, options.own)
    tests = rooms if options.own else [*ROOMS, *TESTS.split()]
    pytest.main(
        [
            "-q",
            "-s",
            *("-p", "no:cacheprovider", "-p", "no:xdist"),
            *(f"tests/{name}" for name in tests),
        ],
        plugins=[trial],
    )
    for room, row in trial.found.items():
        able = row["tried"] - len(row["equivalent"])
        print(
            f"{room:12s} {row['killed']:4d} of {row['tried']:4d} killed, {able:4d} change anything"
        )


if __name__ == "__main__":
    main()
