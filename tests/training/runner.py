"""A tiny run in its own process, for the tests that kill, interrupt or distribute one.

python runner.py FOLDER --steps 40 [--sleep 0.05] [--devices 2] [--accumulate 1]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from eigenprobe import networks
from eigenprobe.points import Frame
from eigenprobe.probes.objective import Objective
from eigenprobe.training.data import ManifoldData, Pool, ProbeSettings, prepare
from eigenprobe.training.module import Optimisation, SpectralModule
from eigenprobe.training.runs import RunSettings, train

K = 5


class Slow(pl.Callback):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_train_batch_end(self, *_: Any) -> None:
        time.sleep(self.seconds)


def circle_pool(count: int = 3, kind: str = "expected") -> Pool:
    """Random samplings of a circle."""
    g = torch.Generator().manual_seed(0)
    whole = torch.linspace(0, 2 * torch.pi, 200, dtype=torch.float64)[:-1]
    circle = torch.stack([whole.cos(), whole.sin()], 1)
    frame = Frame.of(circle)
    clouds = [circle[torch.randperm(len(circle), generator=g)[:80]] for _ in range(count)]
    settings = ProbeSettings("symmetric", scales=(4, 16), smoother={"k": 8})
    return Pool([prepare(x, frame, settings, Objective(kind), K, g) for x in clouds])


def tiny_module(
    steps: int,
    seed: int = 0,
    dropout: float = 0.0,
    kind: type[SpectralModule] = SpectralModule,
    **options: Any,
) -> SpectralModule:
    network = networks.build("tiny", 2, K, torch.Generator().manual_seed(seed), dropout=dropout)
    return kind(
        network,
        Objective(relative=True),
        Optimisation(steps, warmup=5),
        seed=seed,
        log_every=5,
        **options,
    )


def final_loss(module: SpectralModule, pool: Pool) -> float:
    module.cpu().eval()
    with torch.no_grad():
        return float(torch.stack([module.loss(s.to("cpu")).mean() for s in pool.samplings]).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--devices", type=int, default=1)
    o = parser.parse_args()
    torch.set_num_threads(1)
    pool, module = circle_pool(), tiny_module(o.steps, dropout=0.1 if o.devices == 1 else 0.0)
    flags: dict[str, Any] = {"callbacks": [Slow(o.sleep)]}
    if o.devices > 1:
        flags |= {"devices": o.devices, "strategy": "ddp_fork", "accelerator": "cpu"}
    settings = RunSettings(o.folder, device="cpu", checkpoint_every=10, logs=False, flags=flags)
    train(module, ManifoldData(pool, steps=o.steps), settings)


if __name__ == "__main__":
    main()
