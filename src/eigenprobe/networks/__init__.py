"""Networks that map points to features, and their named sizes.

    points (b, n, d) -> features (b, n, K)

`build(preset, inputs, outputs)` makes a network by name; `described(facts)` makes it again from `network.describe()`.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..errors import InputError
from .transformer import MLP, MLPConfig, Transformer, TransformerConfig

Config = MLPConfig | TransformerConfig
Network = MLP | Transformer
M = TypeVar("M", bound=nn.Module)
PACKAGE = Path(__file__).resolve().parent.parent
MOST = 1 << 16  # width, or number of parts, that a stored description may ask for
RANDOMNESS = threading.RLock()  # held by whoever draws from torch's generators, which belong to the whole process

PRESETS: dict[str, Config] = {
    # The paper's.
    "toy": MLPConfig(inputs=1, hidden=(64, 64, 64), outputs=5),
    "overfit": TransformerConfig(point=(32, 128), width=256, layers=8, heads=8, feedforward=256),
    "generalisation": TransformerConfig(point=(64, 256), width=1024, layers=8, heads=32, feedforward=1024, head=(256,)),
    "images-clip": TransformerConfig(
        inputs=512, point=(), width=256, layers=6, heads=8, feedforward=256, head=(64,), outputs=11, dropout=0.1
    ),
    "images-dinov2": TransformerConfig(
        inputs=384, point=(), width=128, layers=6, heads=8, feedforward=128, outputs=11, dropout=0.1
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


@contextmanager
def drawing(seed: int | torch.Generator | None) -> Iterator[None]:
    """Modules made inside draw their parameters from ``seed`` and leave the global generators alone (None: draw from
    those)."""
    if seed is None:
        yield
        return
    with RANDOMNESS, torch.random.fork_rng(devices=[]):
        if isinstance(seed, torch.Generator):  # on its own device: the default one may be meta, which holds no numbers
            seed = int(torch.randint(2**62, (), generator=seed, device=seed.device))
        torch.default_generator.manual_seed(seed)  # not torch.manual_seed, which seeds every GPU too
        yield


def from_config(sizes: Config, generator: torch.Generator | None = None) -> Network:
    """The network of a configuration; parameters are drawn from ``generator`` or the global one."""
    with drawing(generator):
        return MLP(sizes) if isinstance(sizes, MLPConfig) else Transformer(sizes)


def build(preset: str, inputs: int, outputs: int, generator: torch.Generator | None = None, **changes: Any) -> Network:
    """A preset for points in ``inputs`` dimensions and ``outputs`` basis vectors."""
    return from_config(config(preset, inputs=inputs, outputs=outputs, **changes), generator)


def described(facts: dict[str, Any]) -> Network:
    """The network that ``describe()`` described, with fresh parameters."""
    facts = {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}
    kind = facts.pop("kind", None)
    known: dict[str, type[Config]] = {MLP.kind: MLPConfig, Transformer.kind: TransformerConfig}
    if kind not in known:
        raise InputError(f"expected a network of kind 'mlp' or 'transformer', got {kind!r}")
    check_sizes(facts)
    return from_config(known[kind](**facts), torch.Generator().manual_seed(0))


def check_sizes(sizes: Mapping[str, Any]) -> None:
    """Whether sizes read from a file are those of a network at all, before one is built."""
    for name, value in sizes.items():
        numbers = [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, (int, float))]
        if not all(0 <= v <= MOST for v in numbers) or (name == "layers" and value > 256):
            raise InputError(f"expected sizes of a network of at most {MOST} (256 layers), got {name}={value}")


def with_weights(make: Callable[[], M], state: Mapping[str, Tensor], where: str) -> M:
    """The network that ``make`` makes with the weights ``state``, compared before memory for it is taken.

    Those of the package are known to fit, and take no second for torch's compiler, which the comparing loads.
    """
    with nullcontext() if PACKAGE in Path(where).resolve().parents else torch.device("meta"):
        network = make()
    own = network.state_dict()
    wrong = [name for name in own if name not in state or state[name].shape != own[name].shape]
    wrong += [name for name in state if name not in own]
    if wrong:
        raise InputError(f"expected weights for the sizes in {where}, got {len(wrong)} that do not fit: {wrong[0]} ...")
    if not all(bool(torch.isfinite(t).all()) for t in state.values()):
        raise InputError(f"expected finite weights, got NaN or infinity in {where}")
    network = make() if any(t.is_meta for t in own.values()) else network
    network.load_state_dict({name: t.float() for name, t in state.items()})
    return network


__all__ = ["MLP", "PRESETS", "MLPConfig", "Network", "Transformer", "TransformerConfig", "build", "config", "described"]
