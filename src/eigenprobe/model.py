"""The pretrained model: a cloud to its spectral basis in one pass."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from .networks.spectral import SpectralConfig, SpectralNetwork


class SpectralModel:
    def __init__(self, network: SpectralNetwork, facts: dict[str, Any] | None = None) -> None:
        self.network, self.facts = network.eval(), facts or {}

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        from .weights import write

        write(Path(folder), self.network, self.facts)
