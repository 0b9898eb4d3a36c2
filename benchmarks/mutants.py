"""Do the tests bite? One-line changes of the mathematical core, each of which its nearest tests should notice.

    python -m benchmarks.mutants                        40 mutants of every room, drawn with a seed; writes mutants.json
    python -m benchmarks.mutants probes --each 0        all mutants of one room (hours for all rooms); writes nothing

Changes are made by cosmic-ray's operators (the extra ``mutants``): + and -, * and /, powers, comparisons turned round,
signs and negations dropped, True and False, and and or, numbers one more or less, loops that do not run. Left out:
annotations, messages, settings (constants and defaults: `docs/constants.md` varies those), comparisons that differ
where two numbers are equal, and operators that raise a TypeError wherever they are tried. Nothing on disk is touched:
every mutant is a forked process in which the module is imported from the changed source. A mutant is killed where a
test fails, or where the tests take five times as long as without it.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import islice
from typing import Any

import numpy  # noqa: F401  (loaded once, before the forks)
import pytest
import scipy.sparse.linalg  # noqa: F401
import sklearn.base  # noqa: F401
import torch

from benchmarks.catalogue import ROOMS, ROOT
from benchmarks.record import facts, write

PACKAGE = ROOT / "src" / "eigenprobe"
EXCHANGED = (
    *("BinaryOperator_Add_Sub", "BinaryOperator_Sub_Add", "BinaryOperator_Mul_Div", "BinaryOperator_Div_Mul"),
    *("BinaryOperator_Pow_Mul", "BinaryOperator_FloorDiv_Mul", "BinaryOperator_Mod_Mul"),
    *("BinaryOperator_BitAnd_BitOr", "BinaryOperator_BitOr_BitAnd"),
    *("ComparisonOperator_Lt_GtE", "ComparisonOperator_LtE_Gt", "ComparisonOperator_Gt_LtE"),
    *("ComparisonOperator_GtE_Lt", "ComparisonOperator_Eq_NotEq", "ComparisonOperator_NotEq_Eq"),
    *("ComparisonOperator_Is_IsNot", "ComparisonOperator_IsNot_Is"),
    *("UnaryOperator_Delete_USub", "UnaryOperator_Delete_Invert", "UnaryOperator_Delete_Not"),
    *("TrueWithFalse", "FalseWithTrue", "AndWithOr", "OrWithAnd"),
)
OPERATORS = (*(f"core/Replace{name}" for name in EXCHANGED), "core/NumberReplacer", "core/ZeroIterationForLoop")
# A room, or a file of it -> the tests beside it
NEAREST = {
    "probes/covariance": "test_covariance.py test_objective.py",
    "probes": "test_probes.py test_spectrum.py operators/test_given.py",
    "probes/families": "test_families.py",
    "probes/objective": "test_objective.py",
    "probes/probes": "test_probes.py",
    "probes/scale": "training/test_scale.py",
    "probes/spectrum": "test_spectrum.py",
    "smoothers": "test_smoothing.py smoothers test_analytic.py operators/test_altered.py",
    "smoothers/neighbourhood": "test_neighbourhood.py",
    "smoothers/curvature": "operators/test_metrics.py",
    "smoothers/altered": "operators/test_altered.py",
    "smoothers/cells": "operators/test_altered.py operators/test_laplacian.py",
    "eigen": "test_refine.py test_direct.py",
    "eigen/chebyshev": "networks/test_diffusion.py test_refine.py test_direct.py",
    "eigen/span": "test_basis.py test_refine.py test_objective.py test_direct.py",
    "extensions": "extensions test_neighbourhood.py",
    "extensions/kernel": "extensions test_smoothing.py",
    "eigen/derivative": "operators/test_derivative.py test_families.py",
    "estimators": "estimators",
    "estimators/rows": "estimators/test_rows.py estimators/test_lazy.py trust/test_damaged_files.py",
    "estimators/lazy": "estimators/test_lazy.py",
    "estimators/precomputed": "estimators/test_precomputed.py",
}


@dataclass(frozen=True)
class Mutant:
    """A module of the package, its changed source, and the change in words."""

    module: str  # smoothers/variable
    source: str
    change: str

    @property
    def tests(self) -> tuple[str, ...]:
        names = NEAREST.get(self.module) or NEAREST[self.module.split("/")[0]]
        return tuple(str(ROOT / "tests" / name) for name in names.split() if (ROOT / "tests" / name).exists())


def mutants(room: str, seed: int) -> Iterator[Mutant]:
    """The mutants of a room in random order, without those that differ in annotations, messages or settings only."""
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
            module = path.relative_to(PACKAGE).with_suffix("").as_posix()
            yield Mutant(module, changed, _said(sources[path], changed))


@lru_cache(maxsize=64)
def _functions(source: str) -> str | None:
    """What the functions of a module do, without annotations, messages and defaults; None where the source is none."""
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
        if isinstance(node, ast.arguments):
            node.defaults, node.kw_defaults = [], []
    return "\n".join(ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _said(source: str, changed: str) -> str:
    before, after = source.splitlines(), changed.splitlines()
    for tag, i, _, j, _ in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            return f"{i + 1}: {before[i].strip()} -> {after[j].strip()}"
    return "?"


class Changed(MetaPathFinder, SourceFileLoader):
    """Imports one module from another source."""

    def __init__(self, mutant: Mutant) -> None:
        name = "eigenprobe." + mutant.module.replace("/", ".").removesuffix(".__init__")
        SourceFileLoader.__init__(self, name, str(PACKAGE / f"{mutant.module}.py"))
        self.source = mutant.source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None
        )

    def get_code(self, fullname: str) -> Any:
        return compile(self.source, self.path, "exec")


def run(tests: tuple[str, ...], mutant: Mutant | None, limit: float) -> str:
    """``survived``, ``killed`` or ``timeout``, in a process of its own."""
    child = os.fork()
    if not child:
        os.setsid()
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        if mutant is not None:
            sys.meta_path.insert(0, Changed(mutant))
        os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])))
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "killed" if status else "survived"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


@cache
def limit_of(tests: tuple[str, ...]) -> float:
    """Five times what the tests take as they are, which they must pass."""
    start = time.monotonic()
    if run(tests, None, 600) != "survived":
        raise SystemExit(f"benchmarks.mutants: the tests fail without any change: {' '.join(tests)}")
    return 20 + 5 * (time.monotonic() - start)


def score(room: str, each: int, seed: int) -> dict[str, Any]:
    """Killed mutants of a room, and what survived."""
    chosen, survivors = list(islice(mutants(room, seed), each or None)), []
    for number, mutant in enumerate(chosen):
        outcome = run(mutant.tests, mutant, limit_of(mutant.tests))
        if outcome == "survived":
            survivors.append(f"{mutant.module}.py:{mutant.change}")
        print(f"{number + 1:4d}/{len(chosen)} {outcome:9s} {mutant.module}.py:{mutant.change}", flush=True)
    killed = len(chosen) - len(survivors)
    print(f"{room}: {killed} of {len(chosen)} killed, {killed / len(chosen):.0%}", flush=True)
    return {"tried": len(chosen), "killed": killed, "survivors": survivors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; all of them write the result")
    parser.add_argument("--each", type=int, default=40, help="mutants of each room, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if unknown := set(options.rooms) - set(ROOMS):
        parser.error(f"rooms are {', '.join(ROOMS)}, got {sorted(unknown)[0]}")
    torch.set_num_threads(1)
    os.chdir(ROOT)
    made, found = facts("mutants", "cpu", seed=options.seed, peers=("cosmic-ray",)), {}
    for room in options.rooms or ROOMS:
        found[room] = score(room, options.each, options.seed)
        if not options.rooms:
            write("mutants.json", made | {"rooms": found})  # a run that is stopped leaves the rooms before
    for room, row in found.items():
        print(f"{room:12s} {row['killed']:4d} of {row['tried']:4d} killed")


if __name__ == "__main__":
    main()
