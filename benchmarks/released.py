"""Single shapes as the authors' released configuration has it (`eigenprobe_lab.paper.released`).

    python -m benchmarks.released SAMPLES... --seconds 225 --budget 66 [--device cuda]

SAMPLES are what `benchmarks.paper prepare --faces 40000 --n 2500` wrote.  The shapes share
`--seconds`, counted from the start of the process; the rate falls to its end with the share of
`--budget`, the seconds of training of one shape.  `--merge FILES` makes one file of several.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.deadline import Deadline
from benchmarks.record import best_device, existing, facts, write
from eigenprobe.training import RunSettings
from eigenprobe_lab.evaluation.samples import Sample
from eigenprobe_lab.paper.released import POINTS, PROBES, SCHEDULE, learn_released


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("samples", type=existing, nargs="*")
    parser.add_argument("--merge", type=Path, nargs="*", default=[])
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--tag", default="", help="at the end of the name of the file")
    numbers = {"steps": SCHEDULE.steps, "size": POINTS, "probes": PROBES.count, "k": 50}
    numbers |= {"seconds": 0, "budget": 0, "every": 500, "seed": 0}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--small", action="store_true", help="a small network, to try it")
    o = parser.parse_args()
    if o.merge:
        parts = [json.loads(path.read_text()) for path in o.merge]
        rows = sorted((row for part in parts for row in part["rows"]), key=lambda r: r["shape"])
        return write("paper_released.json", parts[0] | {"rows": rows})
    torch.backends.mha.set_fastpath_enabled(False)  # its kernels are not those of the training
    rows = []
    sizes: dict[str, Any] = {"width": 64, "layers": 2, "heads": 4} if o.small else {}
    for place, path in enumerate(o.samples, 1):
        clock, began = Deadline(o.seconds * place / len(o.samples), o.budget), time.monotonic()
        run = RunSettings(
            device=o.device, logs=False, validate_every=o.every, flags={"callbacks": [clock]}
        )
        schedule, probes = replace(SCHEDULE, steps=o.steps), replace(PROBES, count=o.probes)
        sample = Sample.load(path, o.k)
        found = learn_released(sample, o.k, run, schedule, probes, o.size, o.seed, **sizes)
        rows += [found[0] | {"seconds": clock.spent}, *found[1:]]
        print(
            f"{path.stem}: {found[0]['steps']} steps, {time.monotonic() - began:.0f} s", flush=True
        )
        write(f"paper_released{o.tag}.json", facts("released", o.device, o) | {"rows": rows})


if __name__ == "__main__":
    main()
