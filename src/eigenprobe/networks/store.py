"""Weights on disk: `config.json` and float16 safetensors, read and written whole or not at all.

    folder/config.json          format, sizes of the network, facts of its training
    folder/model.safetensors    the weights
    folder/README.md            the model card

The model that comes with the package is the folder `surface` of `pretrained`.
"""

import os
from dataclasses import asdict
from pathlib import Path

from ..errors import InputError, extra
from ..host.files import Facts, write_text
from ..host.weights import read_weights, write_weights
from .spectral import SpectralConfig, SpectralNetwork

PACKAGED = Path(__file__).parent.parent / "pretrained"
CARD = """# {0}: spectral bases of point clouds in one pass

```python
import eigenprobe as ep

model = ep.SpectralModel.from_pretrained("{0}")
basis = model.encode(points)  # (n, 3) -> Basis with up to {1} vectors
```

{2:.1f} million parameters in float16; `config.json` has the facts of the training.
"""


def packaged() -> list[str]:
    """Names of the models in the package."""
    return sorted(path.parent.name for path in PACKAGED.glob("*/config.json"))


def write(folder: Path, network: SpectralNetwork, facts: Facts) -> None:
    """Save a model as float16 with a short card; what is known of its training is in the
    configuration.
    """
    count = sum(p.numel() for p in network.parameters())
    write_text(folder / "README.md", CARD.format(folder.name, network.config.outputs, count / 1e6))
    write_weights(folder, network, asdict(network.config), facts)


def read(folder: Path) -> tuple[SpectralNetwork, Facts]:
    """Load what `write` wrote; damaged and foreign folders are errors that say what is wrong."""
    return read_weights(folder, SpectralConfig, SpectralNetwork, "safetensors weights")


def load_network(source: str | os.PathLike[str]) -> tuple[SpectralNetwork, Facts]:
    """The network and its facts, by its name in the package, from a folder, or from the hub
    (`owner/name`).
    """
    text = os.fspath(source)
    folder = Path(text)
    if text in packaged():
        folder = PACKAGED / text
    elif not folder.is_dir():
        if text.count("/") != 1 or text.startswith((".", "/", "~")):
            known = ", ".join(packaged()) or "none"
            raise InputError(
                f"expected a model in the package ({known}), a folder or a hub id, got {text!r}"
            )
        folder = download(text)
    return read(folder)


def download(name: str) -> Path:
    """The folder of a model on the hub, from the cache where it is there."""
    hub, errors = extra("huggingface_hub"), extra("huggingface_hub.errors")
    try:
        patterns = ["*.json", "*.safetensors", "README.md"]
        return Path(hub.snapshot_download(name, allow_patterns=patterns))
    except (OSError, errors.HfHubHTTPError, errors.HFValidationError, ValueError) as error:
        raise InputError(
            "expected a packaged model, a folder or a hub id; "
            f"cannot get {name!r}: {str(error).splitlines()[0]}"
        ) from error
