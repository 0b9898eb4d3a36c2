"""Weights on disk: `config.json` and float16 safetensors shards, read and written whole or not at all.

    folder/config.json                       format, sizes of the network, facts of its training
    folder/model-00001-of-00002.safetensors  ...
    folder/README.md                         the model card

The folder `surface` beside this file is the model that comes with the package.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..files import atomic_path, reading
from ..networks import check_sizes, drawing, with_weights
from ..networks.shortcut import ShortcutConfig, ShortcutNetwork
from ..networks.spectral import SpectralConfig, SpectralNetwork
from .card import render

FORMAT = "eigenprobe.model/1"
SHARD = 12 * 2**20  # bytes
PACKAGED = Path(__file__).parent
SHORTCUTS = "shortcuts"  # folder of the short-cut network, which is no spectral model


def packaged() -> list[str]:
    """Names of the models in the package."""
    return sorted(path.parent.name for path in PACKAGED.glob("*/config.json") if path.parent.name != SHORTCUTS)


def write(folder: Path, network: SpectralNetwork, facts: dict[str, Any]) -> None:
    """Save a network as float16; the index goes last, so that a folder with one is complete."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in network.state_dict().items():
        tensor = tensor.detach().to("cpu", torch.float16).contiguous()
        if size + 2 * tensor.numel() > SHARD and shards[-1]:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += 2 * tensor.numel()
    names = [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
    for name, shard in zip(names, shards, strict=True):
        with atomic_path(folder / name) as temporary:
            save_file(shard, temporary, metadata={"format": "pt", "eigenprobe": FORMAT})
    parameters = sum(p.numel() for p in network.parameters())
    with atomic_path(folder / "README.md") as temporary:
        Path(temporary).write_text(render(network.config, facts, parameters, folder.name))
    config = {"format": FORMAT, "network": asdict(network.config), "files": names, "facts": facts}
    with atomic_path(folder / "config.json") as temporary:
        Path(temporary).write_text(json.dumps(config, indent=1))


def read(folder: Path) -> tuple[SpectralNetwork, dict[str, Any]]:
    """Load what `write` wrote; damaged and foreign folders are errors that say what is wrong."""
    from safetensors.torch import load_file

    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"expected a model folder with config.json, got {folder}")
    with reading(path, "a readable config.json"):
        config = json.loads(path.read_text())
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        got = config.get("format") if isinstance(config, dict) else type(config).__name__
        raise InputError(f"expected a model written by eigenprobe ({FORMAT}), got {got!r} in {path}")
    known = {f.name for f in fields(SpectralConfig)}
    with reading(path):
        sizes: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in config.get("network", {}).items()
        }
        check_sizes(sizes)
        names = [str(name) for name in config.get("files", [])]
    if set(sizes) - known:
        raise InputError(f"expected network sizes {sorted(known)}, got also {sorted(set(sizes) - known)} in {path}")
    state: dict[str, Tensor] = {}
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise InputError(f"expected names of safetensors files in the model's own folder, got {name!r} in {path}")
        with reading(folder / name, "safetensors weights"):
            state |= load_file(folder / name)

    def make() -> SpectralNetwork:
        with drawing(0):
            return SpectralNetwork(SpectralConfig(**sizes))

    with reading(path):
        network = with_weights(make, state, str(path))
    return network, config.get("facts", {})


def load_network(source: str | os.PathLike[str], *, online: bool = True) -> tuple[SpectralNetwork, dict[str, Any]]:
    """The network and its facts, by its name in the package, from a folder, or from the hub (`owner/name`).

    ``online=False`` downloads nothing: of the hub only what an earlier call brought into its cache.
    """
    text = os.fspath(source)
    folder = Path(text)
    if text in packaged():
        folder = PACKAGED / text
    elif not folder.is_dir():
        if text.count("/") != 1 or text.startswith((".", "/", "~")):
            known = ", ".join(packaged()) or "none"
            raise InputError(f"expected a model in the package ({known}), a folder or a hub id, got {text!r}")
        folder = download(text, online)
    return read(folder)


def fingerprint(network: SpectralNetwork) -> str:
    """A hash of the weights as they are stored."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().to("cpu", torch.float16).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def download(name: str, online: bool = True) -> Path:
    """The folder of a model on the hub, from the cache where it is there."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError as error:
        raise InputError(f"expected a folder, got {name!r}; hub ids need the package huggingface_hub") from error
    try:
        patterns = ["*.json", "*.safetensors", "README.md"]
        return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=not online))
    except (OSError, HfHubHTTPError, HFValidationError, ValueError) as error:
        reason = str(error).splitlines()[0] if online else f"get it first by SpectralModel.from_pretrained({name!r})"
        raise InputError(
            f"expected a model in the package, a folder or a hub id; cannot get {name!r}: {reason}"
        ) from error


def write_shortcut(folder: Path, network: ShortcutNetwork, facts: dict[str, Any]) -> None:
    """Save a short-cut network as float16 with its sizes and the facts of its training."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {name: t.detach().to("cpu", torch.float16).contiguous() for name, t in network.state_dict().items()}
    with atomic_path(folder / "model.safetensors") as temporary:
        save_file(state, temporary, metadata={"format": "pt", "eigenprobe": FORMAT})
    config = {"format": FORMAT, "network": network.describe(), "files": ["model.safetensors"], "facts": facts}
    with atomic_path(folder / "config.json") as temporary:
        Path(temporary).write_text(json.dumps(config, indent=1))


def read_shortcut(folder: Path) -> ShortcutNetwork:
    """Load what `write_shortcut` wrote."""
    from safetensors.torch import load_file

    with reading(folder / "config.json", "a short-cut network"):
        config = json.loads((folder / "config.json").read_text())
        sizes = {key: value for key, value in config["network"].items() if key != "kind"}
        check_sizes(sizes)
    with reading(folder / "model.safetensors", "a short-cut network"):
        state = load_file(folder / "model.safetensors")

        def make() -> ShortcutNetwork:
            with drawing(0):
                return ShortcutNetwork(ShortcutConfig(**sizes))

        return with_weights(make, state, str(folder))
