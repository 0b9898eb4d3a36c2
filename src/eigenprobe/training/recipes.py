"""Recipes: one small YAML file, ``key=value`` changes, every key and type checked; the ``overfit`` recipe.

    kind: overfit        shape=bunny.obj  k=20  probes.kind=row  optimisation.steps=300

A kind of recipe is a settings dataclass and a function that runs it, entered in one table by `recipe_kind` where the
function is defined.  The dataclass says which keys there are and what they may hold; nested dataclasses are sections.
The recipes of the package (`SHIPPED`) are known by name.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
import yaml
from torch import Tensor

from ..cloud import Frame
from ..errors import InputError, near
from ..geometry import oracle
from ..host.files import reading, write_json
from ..host.validation import in_words
from ..readers.shapes import Shape, load
from ..sampling.farthest import farthest_points
from .data import Batch
from .fit import FitSettings, fit_network
from .runs import OracleCosine, RunSettings

SHIPPED = Path(__file__).resolve().parent.parent / "recipes"
RECIPES = "eigenprobe.recipes"  # entry points: a recipe by name, and the module that enters its kind
Run = Callable[[Any, Path, RunSettings], Path]


@dataclass(frozen=True)
class RecipeKind:
    """``run(settings, folder, how)`` returns what it wrote in the folder; ``short`` keys of the section ``schedule``
    may stand at the top."""

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


def run_recipe(path: str | Path, out: Path, changes: Sequence[str] = (), device: str = "auto", **how: Any) -> Path:
    """Run a recipe in the folder ``out``; what it wrote there. ``how`` are fields of `RunSettings`: resume, flags."""
    kind, settings = _load(path, changes)
    out.mkdir(parents=True, exist_ok=True)
    return kind.run(settings, out, RunSettings(out, device=str(RunSettings(device=device).where), **how))


def _load(path: str | Path, changes: Sequence[str]) -> tuple[RecipeKind, Any]:
    recipe = read_recipe(path, changes)
    name = recipe.pop("kind", None)
    for entry in entry_points(group=RECIPES):
        if name not in KINDS:
            entry.load()
    if name not in KINDS:
        raise InputError(f"expected a recipe whose kind is one of {', '.join(KINDS)}, got {name!r} in {path}")
    kind = KINDS[name]
    if moved := {key: recipe.pop(key) for key in kind.short if key in recipe}:
        recipe["schedule"] = {**(recipe.get("schedule") or {}), **moved}
    return kind, build_settings(kind.settings, recipe, name)


def read_recipe(path: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The recipe as nested keys and values, changes applied."""
    path = _find(Path(path))
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
    """The file, or the recipe of this name in the package; ``recipes/NAME.yaml`` is where those of a checkout lay."""
    if path.is_file():
        return path
    shipped = {each.stem: each for folder in _folders() for each in folder.glob("*.yaml")}
    if path.parent not in (Path(), Path("recipes")) or path.stem not in shipped:
        asked = near(path.stem, shipped)
        raise InputError(f"no such recipe: {path}{asked}; by name there are {', '.join(sorted(shipped))}")
    return shipped[path.stem]


def _folders() -> list[Path]:
    """Folders of recipes: our own, and those of packages that enter recipes."""
    packages = sorted({entry.module.partition(".")[0] for entry in entry_points(group=RECIPES)})
    origins = [found.origin for name in packages if (found := find_spec(name)) is not None and found.origin]
    return [SHIPPED, *(Path(origin).parent / "recipes" for origin in origins)]


def build_settings(cls: type, values: object, kind: str, where: str = "") -> Any:
    """The dataclass ``cls`` of a recipe's keys and values; ``where`` is the section, for messages."""
    if not isinstance(values, Mapping):
        raise InputError(f"expected keys and values for {where.rstrip('.') or 'the recipe'}, got {values!r}")
    known = [f.name for f in fields(cls)]
    if unknown := sorted(map(str, set(values) - set(known))):
        asked = near(unknown[0], known)
        raise InputError(
            f"a recipe of kind {kind!r} has no key {where + unknown[0]!r}{asked}; expected {', '.join(known)}"
        )
    types = get_type_hints(cls)
    return cls(**{key: _value(value, types[key], kind, where + key) for key, value in values.items()})


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
    elif wanted is Any or (origin is dict and isinstance(value, dict)) or (origin is Literal and value in options):
        return value
    elif wanted in _CONVERTED and isinstance(value, _CONVERTED[wanted]) and not isinstance(value, bool):
        with suppress(ValueError):
            return wanted(value)
    elif wanted in (int, str, bool, NoneType) and type(value) is wanted:
        return value
    raise InputError(f"expected {in_words(wanted)} for {name}, got {value!r}")


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
SAMPLE = 4000  # vertices of a mesh at which the oracle is compared


@dataclass(frozen=True)
class OverfitRecipe(FitSettings):
    """`FitSettings`, a mesh or cloud ``shape`` (its vertices are used), ``k`` vectors, and keys of `RunSettings`.

    With ``validate_every`` and a mesh, the logs have |cosine| with its oracle.
    """

    shape: str | None = None
    k: int = 50
    validate_every: int = 0
    checkpoint_every: int = 200
    average: float = 0.0
    accumulate: int = 1

    def __post_init__(self) -> None:
        if not self.shape:
            raise InputError("an overfit recipe needs a shape: add shape=FILE")


def _with_oracle(shape: Shape, recipe: OverfitRecipe) -> tuple[Batch, Tensor]:
    """Farthest vertices of a mesh as the network sees them, and the oracle there."""
    k, size = min(recipe.k, shape.n - 1), min(recipe.size or SAMPLE, shape.n)
    exact = oracle(shape.vertices, shape.faces, k)
    chosen = farthest_points(shape.vertices, size, recipe.seed)
    points = torch.as_tensor(shape.vertices[chosen]).float()
    mass = None if recipe.smoother == "row" else recipe.all_probes().build(points).mass
    frame = Frame.of(torch.as_tensor(shape.vertices).float())
    batch = Batch(frame(points, torch.float32)[None], None if mass is None else mass.sqrt().float()[None])
    return batch, torch.as_tensor(exact.vectors[chosen])


@recipe_kind("overfit", OverfitRecipe)
def _overfit(recipe: OverfitRecipe, out: Path, how: RunSettings) -> Path:
    """Train, then write ``basis.safetensors`` and ``summary.json``."""
    own = ("validate_every", "checkpoint_every", "average", "accumulate")
    run = replace(how, **{name: getattr(recipe, name) for name in own})
    shape = load(str(recipe.shape))
    points = torch.as_tensor(shape.vertices).float()
    if recipe.validate_every and shape.faces is not None:
        run = run.watched(OracleCosine([_with_oracle(shape, recipe)], recipe.validate_every))
    basis = fit_network(points, recipe.k, settings=recipe, run=run, device=how.device)
    result = out / "basis.safetensors"
    basis.save(result)
    write_json(out / "summary.json", {"recipe": asdict(recipe), **basis.info})
    return result
