"""The recipe of a pretraining run: YAML and `key=value` changes to `PretrainSettings`, every key and type checked.

    kind: pretrain          steps=500  network.width=128  shapes.sizes=[300,800]
    network: {...}  shapes: {...}  schedule: {...}  augmentation: {...}  and the plain keys of `PretrainSettings`

`minutes`, `piece` and `steps` may stand at the top, where people look for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..training.recipes import read
from .pretrain import PretrainSettings, pretrain

_SHORT = {"minutes": "schedule", "piece": "schedule", "steps": "schedule", "optimiser": "schedule", "rate": "schedule"}


def load_recipe(path: str | Path, changes: Sequence[str] = ()) -> PretrainSettings:
    """Read a recipe file and apply `key=value` changes."""
    return settings_of(read(path, changes))


def settings_of(recipe: dict[str, Any]) -> PretrainSettings:
    """`PretrainSettings` of a recipe's contents."""
    recipe = dict(recipe)
    kind = recipe.pop("kind", "pretrain")
    if kind != "pretrain":
        raise InputError(f"expected a recipe of kind 'pretrain', got {kind!r}")
    for key, section in _SHORT.items():
        if key in recipe:
            recipe[section] = {**recipe.get(section, {}), key: recipe.pop(key)}
    return _build(PretrainSettings, recipe, "")


def run_recipe(
    path: str | Path, out: str | Path, changes: Sequence[str] = (), *, device: str = "auto", resume: str = "auto"
) -> Path:
    """Pretrain by a recipe in the folder `out`; returns the folder of the exported model."""
    from ..training.callbacks import last_checkpoint

    settings = load_recipe(path, changes)
    checkpoint = last_checkpoint(out)
    if resume == "never" and checkpoint is not None:
        checkpoint.unlink()
    return pretrain(settings, Path(out), device=device)


def _build(kind: type[Any], values: Any, where: str) -> Any:
    if not isinstance(values, dict):
        raise InputError(f"expected keys and values under {where or 'the recipe'}, got {values!r}")
    known = {f.name: f for f in fields(kind)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InputError(f"the recipe has no key {where + unknown[0]!r}; expected {', '.join(known)}")
    made = {}
    for name, value in values.items():
        default: Any = known[name].default
        factory: Any = known[name].default_factory
        if default is MISSING and factory is not MISSING:
            default = factory()
        made[name] = _value(value, default, f"{where}{name}")
    return kind(**made)


def _value(value: Any, default: Any, name: str) -> Any:
    if is_dataclass(default) and not isinstance(default, type):
        return _build(type(default), value, f"{name}.")
    if isinstance(default, tuple):
        if not isinstance(value, (list, tuple)):
            raise InputError(f"expected a list for {name}, got {value!r}")
        return tuple(value)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if default is not None and not isinstance(value, type(default)):
        raise InputError(f"expected {type(default).__name__} for {name}, got {value!r}")
    return value
