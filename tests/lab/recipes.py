"""A network, a stream of shapes and a pretraining that take seconds."""

from __future__ import annotations

from eigenprobe.networks.spectral import SpectralConfig
from eigenprobe_lab.factory.pretrain import PretrainSettings
from eigenprobe_lab.factory.schedule import Schedule
from eigenprobe_lab.shapes.stream import ShapeSettings

NETWORK = SpectralConfig(
    outputs=8, width=16, layers=2, heads=2, feedforward=16, point=(8,), shape=16
)
SHAPES = ShapeSettings(
    tokens=600,
    typical=150,
    sizes=(100, 240),
    chunk=6,
    chunks=2,
    renew=4,
    families=["biped", "blob"],
)
TINY = PretrainSettings(
    network=NETWORK,
    shapes=SHAPES,
    schedule=Schedule(minutes=60, steps=6, rate=0.003),
    precision="32",
    validate_every=3,
    held_out=4,
    checkpoint_every=2,
    average=0.9,
    levels=(20.0, 6.0),
)
