"""Weights on disk: `config.json` and float16 safetensors shards, read and written whole or not at all.

    folder/config.json                       format, sizes of the network, facts of its training
    folder/model-00001-of-00002.safetensors  ...
    folder/README.md                         the model card

The folder `surface` beside this file is the model that comes with the package.
"""

import hashlib
import os
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

import torch

from ..errors import InputError, extra
from ..host.files import Facts, write_text
from ..host.weights import read_weights, write_weights
from .spectral import SpectralConfig, SpectralNetwork

PACKAGED = Path(__file__).parent.parent / "pretrained"
_LEVELS = (5, 10, 20, 50)


def packaged() -> list[str]:
    """Names of the models in the package."""
    return sorted(path.parent.name for path in PACKAGED.glob("*/config.json"))


def write(folder: Path, network: SpectralNetwork, facts: Facts, source: str = "") -> None:
    """Save a model as float16 with its card, `card.md` filled from the facts of the run and where it will be found."""
    parameters = sum(p.numel() for p in network.parameters())
    write_text(folder / "README.md", render(network.config, facts, parameters, source or folder.name))
    write_weights(folder, network, asdict(network.config), facts)


def read(folder: Path) -> tuple[SpectralNetwork, Facts]:
    """Load what `write` wrote; damaged and foreign folders are errors that say what is wrong."""
    return read_weights(folder, SpectralConfig, SpectralNetwork, "safetensors weights")


def load_network(source: str | os.PathLike[str], *, online: bool = True) -> tuple[SpectralNetwork, Facts]:
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
    hub, errors = extra("huggingface_hub"), extra("huggingface_hub.errors")
    try:
        patterns = ["*.json", "*.safetensors", "README.md"]
        return Path(hub.snapshot_download(name, allow_patterns=patterns, local_files_only=not online))
    except (OSError, errors.HfHubHTTPError, errors.HFValidationError, ValueError) as error:
        reason = str(error).splitlines()[0] if online else f"get it first by SpectralModel.from_pretrained({name!r})"
        raise InputError(f"expected a packaged model, a folder or a hub id; cannot get {name!r}: {reason}") from error


def render(config: SpectralConfig, facts: Facts, parameters: int, source: str) -> str:
    """The card as Markdown."""
    recipe, history = facts.get("recipe", {}), facts.get("history", [])
    shapes, schedule = recipe.get("shapes", {}), recipe.get("schedule", {})
    low, high = shapes.get("sizes", ("?", "?"))
    last, share = history[-1] if history else {}, recipe.get("alignment", 0)
    card = defaultdict(lambda: "?", {"passes": 1} | schedule | shapes | recipe | asdict(config) | facts)
    card |= {"name": source, "source": source, "low": low, "high": high, "fewest": 64, "curve": _curve(history)}
    card |= {"parameters": f"{parameters / 1e6:.1f} million", "steps": last.get("step", "?")}
    card |= {"minutes": last.get("seconds", 0) / 60, "targets": " from outside the network's own span" if share else ""}
    card["families"] = ", ".join(shapes["families"]) if shapes.get("families") else "all families"
    card["levels"] = ", ".join(f"{level:g}" for level in recipe.get("levels", [])) or "?"
    card["alignment"] = f", plus {share:g} times the misalignment with the span's own Ritz vectors" if share else ""
    card["results"] = "".join(f"\n## {title}\n{table}\n" for title, table in facts.get("results", {}).items())
    return (PACKAGED / "card.md").read_text().format_map(card)


def _curve(history: list[Facts]) -> str:
    if not history:
        return "(none)\n"
    levels = [level for level in _LEVELS if f"cosine{level}" in history[-1]]
    head = ["step", "minutes", *(f"k<={k}" for k in levels), *(f"Ritz k<={k}" for k in levels), "excess loss"]
    lines = [head, ["--:"] * len(head)]
    for row in history if len(history) <= 14 else [*history[:: max(1, len(history) // 12)], history[-1]]:
        cosines = [f"{row[f'{kind}cosine{k}']:.3f}" for kind in ("", "ritz_") for k in levels]
        lines.append([str(row["step"]), f"{row['seconds'] / 60:.1f}", *cosines, f"{row['excess']:.4f}"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
