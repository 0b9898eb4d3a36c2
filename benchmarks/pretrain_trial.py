"""Variants of pretraining side by side on one device, judged on held-out procedural shapes against their closed form.

    python benchmarks/pretrain_trial.py --seconds 30 --out out/trial [--variants plain aligned ...] [--pipeline]
    python benchmarks/pretrain_trial.py --evaluate out/evaluation.npz --model runs/pretrain/model     # measure only

All variants see the same clouds in the same order for the same wall-clock time. `--pipeline` first runs the real thing
(Lightning, checkpoint, resume, export) for a few steps. The evaluation clouds are for reporting, not for choosing.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigenprobe.networks.spectral import SpectralConfig, SpectralNetwork, inputs
from eigenprobe.pretrained.pretrain import PretrainModule, PretrainSettings, Schedule, pretrain
from eigenprobe.pretrained.reconstruction import operator_of
from eigenprobe.pretrained.shapes import ShapeSettings, ShapeStream
from eigenprobe.pretrained.validation import Held, ritz
from eigenprobe.probes.objective import nested_basis
from eigenprobe.training.muon import MuonAdamW

BASE = PretrainSettings(alignment=0.0)
POINTS = replace(BASE, network=replace(BASE.network, channel_every=0))
VARIANTS: dict[str, PretrainSettings] = {
    "plain": BASE,
    "points": POINTS,
    "aligned": replace(BASE, alignment=0.1),
    "aligned1": replace(BASE, alignment=1.0),
    "aligned_points": replace(POINTS, alignment=0.1),
    "aligned_slow": replace(BASE, alignment=0.1, schedule=replace(BASE.schedule, rate=0.004, adam_rate=5e-4)),
    "steep": replace(BASE, alignment=0.1, decay=-1.0),
    "adamw": replace(BASE, alignment=0.1, schedule=replace(BASE.schedule, optimiser="adamw", adam_rate=6e-4)),
    "polish": replace(BASE, alignment=0.1, network=replace(BASE.network, polish=120.0)),
    "wide": replace(
        BASE, alignment=0.1, network=SpectralConfig(width=512, layers=5, heads=8, feedforward=1024, point=(512,))
    ),
}


def trial(
    name: str, settings: PretrainSettings, stream: ShapeStream, held: Held, seconds: float, device: str
) -> dict[str, Any]:
    torch.manual_seed(0)
    module = PretrainModule(settings).to(device)
    module._held = held
    optimiser = module.configure_optimizers()
    averages = [p.detach().clone() for p in module.parameters()]
    start, step, skipped = time.monotonic(), 0, 0
    while (elapsed := time.monotonic() - start) < seconds:
        for group in optimiser.param_groups:
            group["lr"] = group["highest"] * settings.schedule.factor(elapsed / seconds)
        loss = module.clouds_loss(*module.prepared(stream, step)).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(module.parameters(), settings.schedule.clip)
        if isinstance(optimiser, MuonAdamW):
            optimiser.found_inf = (~torch.isfinite(norm)).float()
        if step % 20 == 0:
            skipped += int(not torch.isfinite(norm))  # also keeps the host from running ahead
        optimiser.step()
        step += 1
        torch._foreach_lerp_(averages, [p.data for p in module.parameters()], 1 - min(0.995, (1 + step) / (10 + step)))
    spent = time.monotonic() - start
    for p, average in zip(module.parameters(), averages, strict=True):
        p.data.copy_(average)
    facts = module.evaluate()
    row = {"variant": name, "steps": step, "ms": round(1000 * spent / step, 1), "bad": skipped, **facts}
    row["parameters"] = sum(p.numel() for p in module.parameters())
    return row | {"_network": module.network}


@torch.no_grad()
def timings(clouds: torch.Tensor, device: str) -> None:
    """Milliseconds of the parts of a step that are not the network."""

    def clock(what: str, call: Any, repeats: int = 5) -> None:
        call()
        _wait(device)
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        _wait(device)
        print(f"  {what}: {1000 * (time.perf_counter() - start) / repeats:.2f} ms", flush=True)

    print(f"parts of a step, clouds {tuple(clouds.shape)}")
    for dense in (True, False):
        name = "dense" if dense else "sparse"
        operator = operator_of(clouds, dense)
        clock(f"{name} graph and operator", lambda d=dense: operator_of(clouds, d))
        x = torch.randn(*clouds.shape[:2], 50, device=device)
        clock(f"{name} product with 50 columns", lambda o=operator, x=x: o.apply(x), 20)
        clock(f"{name} inputs", lambda o=operator: inputs(clouds, o))
    small = torch.randn(len(clouds), 50, 50, device=device, dtype=torch.float64)
    clock("eigh of the energies", lambda: torch.linalg.eigh(small + small.mT))


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


@torch.no_grad()
def on_shapes(network: SpectralNetwork, path: Path, device: str) -> dict[str, Any]:
    """Cosines with the mesh oracle, feed-forward and after Ritz on the network's own operator."""
    data = np.load(path)
    names = [str(n) for n in data["names"]]
    groups = {
        "mpz14": [i for i, n in enumerate(names) if n.startswith("mpz14/")],
        "shrec07": [i for i, n in enumerate(names) if "shrec07" in n],
        "surfaces": [i for i, n in enumerate(names) if n.startswith("surfaces/")],
    }
    rows = np.zeros((len(names), 3, 50))
    for i in range(0, len(names), 8):
        clouds = torch.from_numpy(data["points"][i : i + 8]).to(device)
        truth = torch.from_numpy(data["vectors"][i : i + 8].astype(np.float64)).to(device)
        operator = operator_of(clouds, dense=False)
        seen = inputs(clouds, operator)
        with torch.autocast(clouds.device.type, torch.bfloat16, enabled=clouds.is_cuda):
            raw, mixing = network.raw(seen)
        root = operator.mass.sqrt()[..., None].double()
        learned = network.finish(raw, mixing, seen, operator)
        start = network.finish(0 * raw, 0 * mixing, seen, operator) + 1e-6 * torch.randn_like(learned)
        for j, z in enumerate((learned, start)):
            basis, _ = nested_basis(torch.cat([root.float(), root.float() * z], -1))
            for k, q in enumerate((basis, ritz(basis, operator)[0]) if j == 0 else (basis,)):
                rows[i : i + 8, 2 * j + k] = _cosines(q / root, truth)
    levels = (5, 10, 20, 50)
    kinds = ("feedforward", "ritz", "inputs_only")
    return {
        group: {kind: [round(float(rows[members, j, :k].mean()), 4) for k in levels] for j, kind in enumerate(kinds)}
        for group, members in groups.items()
        if members
    }


def _cosines(v: torch.Tensor, truth: torch.Tensor) -> np.ndarray:
    unit = torch.nn.functional.normalize
    return (unit(v, dim=1) * unit(truth[..., : v.shape[-1]], dim=1)).sum(1).abs().cpu().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument(
        "--variants", nargs="*", default=["plain", "points", "aligned", "aligned1"], choices=[*VARIANTS]
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("out/trial"))
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--evaluate", type=Path)
    parser.add_argument("--model", type=Path, help="measure this model and stop")
    parser.add_argument(
        "--tiny", action="store_true", help="small clouds and networks, to try the script on a processor"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.model:
        from eigenprobe.pretrained.store import read

        network = read(options.model)[0].to(options.device).eval()
        print(json.dumps(on_shapes(network, options.evaluate, options.device), indent=1))
        return
    shapes, small = (
        ShapeSettings(),
        SpectralConfig(outputs=20, width=64, layers=2, heads=2, feedforward=64, point=(32,)),
    )
    if options.tiny:
        shapes = ShapeSettings(tokens=2048, typical=200, sizes=(128, 300), chunk=24, chunks=2, renew=20)
    if options.pipeline:
        schedule = Schedule(minutes=0.5, piece=0.2)
        settings = replace(VARIANTS["aligned"], shapes=shapes, schedule=schedule, validate_every=40, held_out=16)
        settings = replace(settings, network=small, precision="32") if options.tiny else settings
        for piece in range(2):
            began = time.monotonic()
            pretrain(settings, options.out / "pipeline", device=options.device)
            facts = json.loads((options.out / "pipeline" / "history.json").read_text())
            print(f"pipeline piece {piece}: {time.monotonic() - began:.1f} s, {facts['history'][-1]}", flush=True)
    began = time.monotonic()
    stream = ShapeStream(shapes).to(options.device)
    stream.at(0)
    print(f"first chunk of {shapes.chunk} clouds: {time.monotonic() - began:.1f} s", flush=True)
    began = time.monotonic()
    held = Held.draw(16 if options.tiny else 64, shapes.typical, torch.device(options.device))
    print(f"held-out clouds and closed forms: {time.monotonic() - began:.1f} s", flush=True)
    timings(stream.at(0), options.device)
    rows = []
    for name in options.variants:
        settings = replace(VARIANTS[name], shapes=shapes)
        settings = replace(settings, network=small, precision="32") if options.tiny else settings
        row = trial(name, settings, stream, held, options.seconds, options.device)
        network = row.pop("_network")
        if options.evaluate:
            row["shapes"] = on_shapes(network, options.evaluate, options.device)
        rows.append(row)
        shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items() if "matched" not in k}
        print(json.dumps(shown), flush=True)
        (options.out / "trial.json").write_text(json.dumps(rows, indent=1))
    if options.device.startswith("cuda"):
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
