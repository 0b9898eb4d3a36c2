"""Networks that map points to features, and their named sizes.

    points (b, n, d) -> features (b, n, K)

`build(preset, inputs, outputs)` makes a network by name; `described(facts)` makes it again from
`network.describe()`.
"""

from dataclasses import fields, replace
from typing import Any

import torch

from ..errors import InputError
from ..host.files import Facts
from ..host.weights import check_sizes, drawing
from .transformer import MLP, MLPConfig, Transformer, TransformerConfig

Config = MLPConfig | TransformerConfig
Network = MLP | Transformer

PRESETS: dict[str, Config] = {
    # The paper's: sizes that are not given are those of "toy" and "overfit".
    "toy": MLPConfig(inputs=1, outputs=5),
    "overfit": TransformerConfig(),
    "generalisation": TransformerConfig(
        point=(64, 256), width=1024, heads=32, feedforward=1024, head=(256,)
    ),
    # For one manifold on a processor: the same functions for a hundredth of the work.
    "cpu": MLPConfig(hidden=(256, 256, 256), activation="gelu", fourier=64),
    "tiny": TransformerConfig(point=(16,), width=32, layers=2, heads=4, feedforward=32),
}


def config(preset: str, **changes: Any) -> Config:
    """A preset with some sizes changed: ``config("overfit", outputs=20)``."""
    if preset not in PRESETS:
        raise InputError(f"network preset must be one of {', '.join(PRESETS)}; got {preset!r}")
    base = PRESETS[preset]
    unknown = set(changes) - {f.name for f in fields(base)}
    if unknown:
        raise InputError(f"preset {preset!r} has no size {', '.join(sorted(unknown))}")
    return replace(base, **changes)


def from_config(sizes: Config, generator: torch.Generator | None = None) -> Network:
    """The network of a configuration; parameters are drawn from ``generator`` or the global one."""
    with drawing(generator):
        return MLP(sizes) if isinstance(sizes, MLPConfig) else Transformer(sizes)


def build(
    preset: str, inputs: int, outputs: int, generator: torch.Generator | None = None, **changes: Any
) -> Network:
    """A preset for points in ``inputs`` dimensions and ``outputs`` basis vectors."""
    return from_config(config(preset, inputs=inputs, outputs=outputs, **changes), generator)


def described(facts: Facts) -> Network:
    """The network that ``describe()`` described, with fresh parameters."""
    facts = {
        key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
    }
    kind = facts.pop("kind", None)
    known: dict[str, type[Config]] = {MLP.kind: MLPConfig, Transformer.kind: TransformerConfig}
    if kind not in known:
        raise InputError(f"expected a network of kind 'mlp' or 'transformer', got {kind!r}")
    check_sizes(facts)
    return from_config(known[kind](**facts), torch.Generator().manual_seed(0))


__all__ = [
    "MLP",
    "PRESETS",
    "MLPConfig",
    "Network",
    "Transformer",
    "TransformerConfig",
    "build",
    "config",
    "described",
]
