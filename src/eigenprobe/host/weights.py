"""Weights of networks on disk: `config.json` and float16 safetensors, read and written whole
or not at all.

folder/config.json          format, sizes of the network, facts of its training
folder/model.safetensors    the weights, or in several such files
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..errors import InputError
from .files import Facts, atomic_path, reading, write_json

M = TypeVar("M", bound=nn.Module)
PACKAGE = Path(__file__).resolve().parent.parent
MOST, DEEPEST = 1 << 16, 256  # width, and layers, that a stored description may ask for
# Held by whoever draws from torch's generators, which belong to the whole process.
RANDOMNESS = threading.RLock()
FORMAT = "eigenprobe.model/1"
NAME = "model.safetensors"


@contextmanager
def drawing(seed: int | torch.Generator | None) -> Iterator[None]:
    """Modules made inside draw their parameters from ``seed`` and leave the global generators alone
    (None: draw from those).
    """
    if seed is None:
        yield
        return
    with RANDOMNESS, torch.random.fork_rng(devices=[]):
        # On the generator's own device: the default one may be meta, which holds no numbers.
        if isinstance(seed, torch.Generator):
            seed = int(torch.randint(2**62, (), generator=seed, device=seed.device))
        torch.default_generator.manual_seed(seed)  # torch.manual_seed seeds every GPU too
        yield


def check_sizes(sizes: Mapping[str, Any]) -> None:
    """Whether sizes read from a file are those of a network at all, before one is built."""
    for name, value in sizes.items():
        most = DEEPEST if name == "layers" else MOST
        parts = value if isinstance(value, tuple) else (value,)
        if not all(0 <= v <= most for v in parts if isinstance(v, (int, float))):
            raise InputError(f"expected {name} of a network from 0 to {most}, got {value}")


def with_weights(make: Callable[[], M], state: Mapping[str, Tensor], where: str) -> M:
    """The network that ``make`` makes with the weights ``state``, compared before memory for it is
    taken.

    Those of the package are known to fit, and take no second for torch's compiler, which the
    comparing loads.
    """
    with nullcontext() if PACKAGE in Path(where).resolve().parents else torch.device("meta"):
        network = make()
    if not all(bool(each.isfinite().all()) for each in state.values()):
        raise InputError(f"expected finite weights, got NaN or infinity in {where}")
    try:
        network.load_state_dict({name: each.float() for name, each in state.items()}, assign=True)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()[:200]
        raise InputError(f"expected weights for the sizes in {where}: {first}") from error
    return network


def write_weights(folder: Path, network: nn.Module, sizes: Facts, facts: Facts) -> None:
    """Weights, then what describes them: a folder that has it is complete."""
    state = network.state_dict()
    half = {name: each.to("cpu", torch.float16).contiguous() for name, each in state.items()}
    with atomic_path(folder / NAME) as temporary:
        save_file(half, temporary, metadata={"format": "pt", "eigenprobe": FORMAT})
    write_json(folder / "config.json", {"format": FORMAT, "network": sizes, "facts": facts})


def read_weights(
    folder: Path, sizes_type: type, network_type: Callable[[Any], M], what: str
) -> tuple[M, Facts]:
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"expected a model folder with config.json, got {folder}")
    with reading(path, "a readable config.json"):
        config = json.loads(path.read_text())
    got = config.get("format") if isinstance(config, dict) else type(config).__name__
    if got != FORMAT:
        raise InputError(
            f"expected a model written by eigenprobe ({FORMAT}), got {got!r} in {path}"
        )
    with reading(path):
        listed = config.get("network", {}).items()
        sizes = {name: tuple(v) if isinstance(v, list) else v for name, v in listed}
        sizes.pop("kind", None)
        check_sizes(sizes)
    state: dict[str, Tensor] = {}
    if not (parts := sorted(folder.glob("model*.safetensors"))):
        raise InputError(f"expected model*.safetensors beside config.json in {folder}")
    for part in parts:
        with reading(part, what):
            state |= load_file(part)

    def make() -> M:
        with drawing(0):
            return network_type(sizes_type(**sizes))

    with reading(path):
        return with_weights(make, state, str(path)), config.get("facts", {})
