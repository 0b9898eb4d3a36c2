"""The short-cut network without Lightning, on a machine that has torch, numpy and scipy alone.

    python -m eigenprobe_lab.factory.plain pack MESHES.npz packed.npz
    python -m eigenprobe_lab.factory.plain train packed.npz --minutes 8 --out runs/shortcuts

``train`` goes on from the weights in the package.  It writes the averaged weights to ``OUT/model``
every two minutes and at the end, with recall and false cuts on shapes that it was not trained on,
before and after.
"""

import argparse
import json
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from eigenprobe.shortcuts.cuts import shipped
from eigenprobe.shortcuts.network import ShortcutNetwork, write_shortcut

from ..shapes.meshes import pack
from .judged import Clouds, ContactStream, Loss, NeighbourSettings, held_out
from .schedule import Schedule

SAVED = 120.0  # seconds between two exports
SETTINGS = NeighbourSettings(
    clouds=Clouds(chunk=48, chunks=2, dense=20_000, sizes=(250, 500, 1000, 1500, 2200, 4000, 8000)),
    loss=Loss(ratio=1.55, soft=0.12),
    schedule=Schedule(optimiser="adamw", adam_rate=5e-4, weight_decay=0.001, cooldown=0.9),
    passes=4,
    shipped=True,
)


def train(
    settings: NeighbourSettings, out: Path, device: torch.device, network: ShortcutNetwork
) -> dict[str, Any]:
    """Train for the minutes of the schedule; the facts of the run, which are in ``OUT/model``."""
    schedule = settings.schedule
    before = held_out(network.to(device).eval(), settings, device)
    print(json.dumps({"before": before}), flush=True)
    live = deepcopy(network).train().requires_grad_(True)
    pairs = list(zip(network.parameters(), live.parameters(), strict=True))
    optimiser = torch.optim.AdamW(
        live.parameters(), schedule.adam_rate, (0.9, 0.99), weight_decay=schedule.weight_decay
    )
    stream = ContactStream(settings).to(device)
    history: list[dict[str, float]] = []
    facts = {"recipe": json.loads(json.dumps(asdict(settings), default=str)), "before": before}
    began = saved = time.monotonic()
    step, total = 0, torch.zeros((), device=device)
    while (seconds := time.monotonic() - began) < 60 * schedule.minutes and step < schedule.steps:
        progress = max(seconds / (60 * schedule.minutes), step / schedule.steps)
        optimiser.param_groups[0]["lr"] = schedule.adam_rate * schedule.factor(progress)
        batch = stream.at(step)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            z = live(batch.suspects)
        loss = settings.loss(z.float(), batch.ratio)
        optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(live.parameters(), schedule.clip)
        if bool(torch.isfinite(norm)):
            optimiser.step()
            total += loss.detach()
        step += 1
        share = 1 - min(settings.average, (1 + step) / (10 + step))
        with torch.no_grad():
            for mean, parameter in pairs:
                mean.lerp_(parameter, share)
        if step % 50 == 0:
            row = {"step": step, "seconds": round(seconds, 1), "loss": float(total) / 50}
            print(json.dumps(row), flush=True)
            history.append(row)
            total.zero_()
        if time.monotonic() - saved > SAVED:
            saved = time.monotonic()
            write_shortcut(out / "model", deepcopy(network).cpu(), facts | {"history": history})
    facts |= {"steps": step, "seconds": round(time.monotonic() - began, 1), "history": history}
    facts["held out"] = held_out(network, settings, device)
    print(json.dumps({"after": facts["held out"], "steps": step}), flush=True)
    write_shortcut(out / "model", network.cpu(), facts)
    return facts


def main(words: Sequence[str] | None = None) -> int:
    """``pack`` or ``train``."""
    parser = argparse.ArgumentParser(prog="python -m eigenprobe_lab.factory.plain")
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="make a small file of many meshes")
    packing.add_argument("source", type=Path, help="npz of NAME/v and NAME/f")
    packing.add_argument("target", type=Path)
    training = commands.add_parser("train", help="go on training from the weights in the package")
    training.add_argument("meshes", type=Path, help="what pack wrote")
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--minutes", type=float, default=8.0)
    training.add_argument("--workers", type=int, default=0, help="processes that prepare batches")
    training.add_argument("--rate", type=float, default=SETTINGS.schedule.adam_rate)
    training.add_argument("--real", type=float, default=Clouds.real, help="share of meshes")
    training.add_argument("--clutter", type=float, default=Clouds.clutter, help="share of clutter")
    training.add_argument("--whole", action="store_true", help="judge by paths on whole meshes")
    training.add_argument("--points", type=int, default=Clouds.points, help="per batch")
    training.add_argument("--dense", type=int, default=SETTINGS.clouds.dense)
    training.add_argument("--steps", type=int, default=SETTINGS.schedule.steps)
    training.add_argument("--seed", type=int, default=31)
    training.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    o = parser.parse_args(words)
    if o.command == "pack":
        size = pack(o.source, o.target)
        print(f"{size} meshes in {o.target}, {o.target.stat().st_size / 2**20:.1f} MiB")
        return 0
    changes: dict[str, Any] = {"real": o.real, "clutter": o.clutter, "seen": not o.whole}
    changes["meshes"] = o.meshes.resolve()
    clouds = replace(SETTINGS.clouds, points=o.points, dense=o.dense, **changes)
    if o.workers:
        clouds = replace(clouds, chunks=1)
    schedule = replace(SETTINGS.schedule, minutes=o.minutes, adam_rate=o.rate, steps=o.steps)
    settings = replace(SETTINGS, clouds=clouds, schedule=schedule, workers=o.workers, seed=o.seed)
    network = deepcopy(shipped()).float()
    train(settings, o.out, torch.device(o.device), network)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
