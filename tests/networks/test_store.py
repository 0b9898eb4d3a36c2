"""Tests of `networks.store`."""

from __future__ import annotations

import json

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.networks.spectral import SpectralNetwork
from eigenprobe.pretrained.model import SpectralModel
from tests.pretrained.conftest import SMALL


def test_foreign_and_damaged_weights(folder, tmp_path):
    import shutil

    with pytest.raises(InputError, match=r"config\.json"):
        SpectralModel.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="package"):
        SpectralModel.from_pretrained("no-such-model")
    with pytest.raises(InputError, match="cannot get"):
        SpectralModel.from_pretrained("nobody/no-such-model-0")

    def copy(name: str):
        target = tmp_path / name
        shutil.copytree(folder, target)
        return target

    truncated = copy("truncated")
    weights = next(truncated.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="safetensors"):
        SpectralModel.from_pretrained(truncated)
    missing = copy("missing")
    next(missing.glob("*.safetensors")).unlink()
    with pytest.raises(InputError, match="safetensors"):
        SpectralModel.from_pretrained(missing)
    foreign = copy("foreign")
    (foreign / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(InputError, match="written by eigenprobe"):
        SpectralModel.from_pretrained(foreign)
    garbled = copy("garbled")
    (garbled / "config.json").write_text("{")
    with pytest.raises(InputError, match="readable"):
        SpectralModel.from_pretrained(garbled)
    other = copy("other")
    config = json.loads((other / "config.json").read_text())
    config["network"]["width"] = 64
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="size mismatch"):
        SpectralModel.from_pretrained(other)
    network = SpectralNetwork(SMALL)
    torch.nn.init.constant_(network.bias.bias, torch.nan)
    SpectralModel(network).save_pretrained(tmp_path / "nan")
    with pytest.raises(InputError, match="finite"):
        SpectralModel.from_pretrained(tmp_path / "nan")
