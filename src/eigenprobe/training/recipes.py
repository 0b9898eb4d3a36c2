"""Recipes of single-manifold runs: one small YAML file, `key=value` changes, every key checked.

    kind: overfit        shape=bunny.obj  k=20  probes.kind=row  optimisation.steps=300
    kind: toy1d          steps=1500

`overfit` keys are `shape`, `k`, `validate_every`, `checkpoint_every`, `average` and the fields of `FitSettings`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import atomic_path

RUN_KEYS = ("validate_every", "checkpoint_every", "average", "accumulate")


def read(path: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The recipe as nested keys and values, changes applied."""
    import yaml

    try:
        recipe = yaml.safe_load(Path(path).read_text())
    except FileNotFoundError as error:
        raise InputError(f"no such recipe: {path}") from error
    except yaml.YAMLError as error:
        raise InputError(f"expected a YAML recipe, cannot read {path}: {error}") from error
    if not isinstance(recipe, dict) or "kind" not in recipe:
        raise InputError(f"expected a recipe with a 'kind', got none in {path}")
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
        target[last] = yaml.safe_load(value)
    return recipe


def build(cls: type, values: Mapping[str, Any], where: str) -> Any:
    """A dataclass from keys and values; an unknown key is an error that lists the known ones."""
    known = {f.name: f for f in fields(cls)}
    if unknown := sorted(set(values) - set(known)):
        raise InputError(f"{where} has no key {unknown[0]!r}; it knows {', '.join(known)}")
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    for key, value in plain.items():
        default = known[key].default
        numeric = isinstance(default, (int, float)) and not isinstance(default, bool)
        if numeric and value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise InputError(f"{where}.{key} must be a number, got {value!r}")
    return cls(**plain)


def fit_settings(recipe: Mapping[str, Any]) -> Any:
    """`FitSettings` of an ``overfit`` recipe."""
    from ..probes.probes import Probes
    from .data import ProbeSettings
    from .fit import FitSettings
    from .module import Optimisation

    values = {key: value for key, value in recipe.items() if key not in ("kind", "shape", "k", *RUN_KEYS)}
    probes = dict(values.pop("probes", None) or {})
    if probes.get("paper") is not None:
        probes["paper"] = build(Probes, probes["paper"], "probes.paper")
    if values.get("optimisation") is not None:
        values["optimisation"] = build(Optimisation, values["optimisation"], "optimisation")
    return replace(build(FitSettings, values, "recipe"), probes=build(ProbeSettings, probes, "probes"))


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """An ``overfit`` or ``toy1d`` recipe, checked but not run."""
    recipe = read(path, changes)
    if recipe["kind"] == "overfit":
        if not recipe.get("shape"):
            raise InputError("an overfit recipe needs a shape: add shape=FILE")
        fit_settings(recipe)
    elif recipe["kind"] == "toy1d":
        if unknown := sorted(set(recipe) - {"kind", "seed", "steps", "probes"}):
            raise InputError(f"a toy1d recipe has no key {unknown[0]!r}; it knows seed, steps, probes")
    else:
        raise InputError(f"expected a recipe of kind overfit or toy1d, got {recipe['kind']!r}")
    return recipe


def run_recipe(
    path: str | Path,
    out: str | Path,
    changes: Sequence[str] = (),
    *,
    device: str = "cpu",
    resume: str = "auto",
) -> Path:
    """Run an ``overfit`` or ``toy1d`` recipe in the folder ``out``; the basis it wrote there."""
    recipe = load_recipe(path, changes)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    return _toy1d(recipe, folder) if recipe["kind"] == "toy1d" else _overfit(recipe, folder, device, resume)


def _overfit(recipe: dict[str, Any], out: Path, device: str, resume: str) -> Path:
    import torch

    from ..geometry import load
    from .fit import fit_network
    from .runs import RunSettings

    settings = fit_settings(recipe)
    run = {key: recipe[key] for key in RUN_KEYS if key in recipe}
    shape = load(recipe["shape"])
    basis = fit_network(
        torch.as_tensor(shape.vertices).float(),
        int(recipe.get("k", 50)),
        seed=settings.seed,
        device=device,
        settings=settings,
        run=RunSettings(out, resume=resume, **run),  # type: ignore[arg-type]
    )
    result, facts = out / "basis.safetensors", out / "summary.json"
    basis.save(result)
    with atomic_path(facts) as temporary:
        temporary.write_text(json.dumps({"recipe": recipe, **basis.info}, indent=1, default=str) + "\n")
    return result


def _toy1d(recipe: dict[str, Any], out: Path) -> Path:
    from ..paper.toy1d import figure, toy1d

    toy = toy1d(**{key: value for key, value in recipe.items() if key != "kind"})
    figure(toy, out / "toy1d.png")
    with atomic_path(out / "toy1d.md") as temporary:
        temporary.write_text(toy.markdown() + "\n")
    toy.bases["paper"].save(out / "basis.safetensors")
    return out / "basis.safetensors"
