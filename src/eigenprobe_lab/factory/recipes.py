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
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from eigenprobe.errors import InputError, extra, near
from eigenprobe.host.files import reading
from eigenprobe.host.validation import checked

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


def _value(value: Any, wanted: Any, kind: str, name: str) -> Any:
    """What YAML reads, as a type asks: a section, a number that it takes for text, a path, a
    tuple.
    """
    union = get_origin(wanted) in (Union, UnionType)
    options = get_args(wanted) if union else (wanted,)
    section = next(filter(is_dataclass, options), None)
    if section is not None and (isinstance(value, Mapping) or not union):
        return build_settings(section, value, kind, f"{name}.")  # type: ignore[arg-type]
    if isinstance(value, str):
        for convert in {float, Path} & set(options):
            with suppress(ValueError):
                value = convert(value)
    elif isinstance(value, list) and any(get_origin(each) is tuple for each in options):
        value = tuple(value)
    return checked(wanted, name, value)
