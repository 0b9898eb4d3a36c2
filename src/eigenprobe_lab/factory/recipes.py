"""Recipes: one small YAML file, ``key=value`` changes, every key and type checked.

    kind: overfit        shape=bunny.obj  k=20  probes.kind=row  optimisation.steps=300

A kind of recipe is a settings dataclass and a function that runs it, entered by `recipe_kind` in
the module that `MODULES` names.  The dataclass says which keys there are and what they may hold;
nested dataclasses are sections.  The recipes in `FOLDER` are known by name.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from eigenprobe.errors import InputError, extra, near
from eigenprobe.host.files import reading

FOLDER = Path(__file__).resolve().parent.parent / "recipes"
MODULES = {  # kind of recipe -> module of the laboratory that enters it
    "overfit": "factory.overfit",
    "pretrain": "factory.pretrain",
    "neighbours": "factory.neighbours",
    "paper_generalisation": "paper.generalisation",
    "images": "paper.images_recipe",
}
Run = Callable[[Any, Path, Any], Path]  # the last: `RunSettings`


@dataclass(frozen=True)
class RecipeKind:
    """``run(settings, folder, how)`` returns what it wrote in the folder; ``short`` keys of the
    section ``schedule`` may stand at the top."""

    settings: type
    run: Run
    short: Sequence[str]


KINDS: dict[str, RecipeKind] = {}


def recipe_kind(name: str, settings: type, short: Sequence[str] = ()) -> Callable[[Run], Run]:
    """Enter the decorated function in the table of kinds."""

    def enter(run: Run) -> Run:
        KINDS[name] = RecipeKind(settings, run, short)
        return run

    return enter


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> Any:
    """The settings of a recipe with its changes, checked but not run."""
    return _load(path, changes)[1]


def run_recipe(
    path: str | Path, out: Path, changes: Sequence[str] = (), device: str = "auto", **how: Any
) -> Path:
    """Run a recipe in the folder ``out``; what it wrote there. ``how`` are fields of `RunSettings`:
    resume, flags.
    """
    kind, settings = _load(path, changes)
    from eigenprobe.training import RunSettings  # not before the recipe is known to be one

    out.mkdir(parents=True, exist_ok=True)
    return kind.run(
        settings, out, RunSettings(out, device=str(RunSettings(device=device).where), **how)
    )


def _load(path: str | Path, changes: Sequence[str]) -> tuple[RecipeKind, Any]:
    recipe = read_recipe(path, changes)
    name = recipe.pop("kind", None)
    if name not in MODULES:
        known = ", ".join(MODULES)
        raise InputError(f"expected a recipe whose kind is one of {known}, got {name!r} in {path}")
    import_module(f"eigenprobe_lab.{MODULES[name]}")
    kind = KINDS[name]
    if moved := {key: recipe.pop(key) for key in kind.short if key in recipe}:
        recipe["schedule"] = {**(recipe.get("schedule") or {}), **moved}
    return kind, build_settings(kind.settings, recipe, name)


def read_recipe(path: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The recipe as nested keys and values, changes applied."""
    path, yaml = _find(Path(path)), extra("yaml")
    with reading(path, "a YAML recipe"):
        recipe = yaml.safe_load(path.read_text())
    recipe = recipe if isinstance(recipe, dict) else {}
    for change in changes:
        key, found, value = change.partition("=")
        if not found:
            raise InputError(f"expected key=value, got {change!r}")
        *parents, last = key.split(".")
        target = recipe
        for parent in parents:
            target = target.setdefault(parent, {})
            if not isinstance(target, dict):
                raise InputError(f"{parent} in {key!r} is a value, not a section")
        try:
            target[last] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise InputError(f"expected key=value, cannot read the value of {change!r}") from error
    return recipe


def _find(path: Path) -> Path:
    """The file, or the recipe of this name in the package."""
    if path.is_file():
        return path
    shipped = {each.stem: each for each in FOLDER.glob("*.yaml")}
    if path.parent not in (Path(), Path("recipes")) or path.stem not in shipped:
        known = ", ".join(sorted(shipped))
        asked = near(path.stem, shipped)
        raise InputError(f"no such recipe: {path}{asked}; by name there are {known}")
    return shipped[path.stem]


def build_settings(cls: type, values: object, kind: str, where: str = "") -> Any:
    """The dataclass ``cls`` of a recipe's keys and values; ``where`` is the section, for
    messages.
    """
    if not isinstance(values, Mapping):
        raise InputError(
            f"expected keys and values for {where.rstrip('.') or 'the recipe'}, got {values!r}"
        )
    known = [f.name for f in fields(cls)]
    if unknown := sorted(map(str, set(values) - set(known))):
        asked = near(unknown[0], known)
        raise InputError(
            f"a recipe of kind {kind!r} has no key {where + unknown[0]!r}{asked}; "
            f"expected {', '.join(known)}"
        )
    types = get_type_hints(cls)
    return cls(
        **{key: _value(value, types[key], kind, where + key) for key, value in values.items()}
    )


def _value(value: object, wanted: Any, kind: str, name: str) -> Any:
    """``value`` as the annotated type ``wanted``."""
    origin, options = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return _first_fitting(value, wanted, kind, name)
    if is_dataclass(wanted):
        return build_settings(wanted, value, kind, f"{name}.")  # type: ignore[arg-type]
    if origin in (tuple, list) and isinstance(value, (tuple, list)):
        types = options[:1] * len(value) if origin is list or options[-1] is Ellipsis else options
        if len(types) == len(value):
            return origin(_value(v, t, kind, name) for v, t in zip(value, types))
    elif (
        wanted is Any
        or (origin is dict and isinstance(value, dict))
        or (origin is Literal and value in options)
    ):
        return value
    elif (
        wanted in _CONVERTED
        and isinstance(value, _CONVERTED[wanted])
        and not isinstance(value, bool)
    ):
        with suppress(ValueError):
            return wanted(value)
    elif wanted in (int, str, bool, NoneType) and type(value) is wanted:
        return value
    raise InputError(f"expected {in_words(wanted)} for {name}, got {value!r}")


WORDS: dict[Any, str] = {int: "a whole number", float: "a number", str: "text", Path: "a path"}
WORDS |= {bool: "true or false", NoneType: "null"}


def in_words(hint: Any) -> str:
    """A type in the words of someone who types its values."""
    origin, options = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, options))
    if origin in (Union, UnionType):
        return " or ".join(map(in_words, options))
    if origin in (tuple, list):
        count = f" of {len(options)}" if len(options) > 1 and options[-1] is not Ellipsis else ""
        return f"a list{count}"
    return WORDS.get(hint, "keys and values")


def _first_fitting(value: object, wanted: object, kind: str, name: str) -> Any:
    """``value`` as the first type of a union that it fits."""
    options = get_args(wanted)
    sections = [option for option in options if isinstance(value, Mapping) and is_dataclass(option)]
    if len(sections) == 1:  # explains what is wrong in it
        return _value(value, sections[0], kind, name)
    for option in options:
        with suppress(InputError):
            return _value(value, option, kind, name)
    raise InputError(f"expected {in_words(wanted)} for {name}, got {value!r}")


_CONVERTED: dict[Any, Any] = {float: (int, float, str), Path: str}  # YAML reads 5e-4 as text
