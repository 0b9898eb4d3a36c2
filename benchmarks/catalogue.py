"""Which command makes which file of benchmarks/results, and by which small sample it is confirmed.

    python -m benchmarks.catalogue                  run all commands that need no GPU: some hours
    python -m benchmarks.catalogue --gpu            run the others
    python -m benchmarks.catalogue --stale [--gpu]  only those that are missing or not confirmed
    python -m benchmarks.catalogue --list           say which are which

``$DATA`` in a command is the folder of data, which docs/results.md describes.  A file keeps a small
sample of its own measurement (`samples`): inputs, seed and the numbers they gave. It is confirmed
where the same sample gives the same numbers today, stale where it gives others, and unconfirmed
where it has none, or one of another measurement. Moving or renaming code changes nothing.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from benchmarks.samples import agrees

ROOT = Path(__file__).resolve().parent.parent
DATA = "$DATA"
EMBEDDINGS = ("banking77_minilm", "cifar10_efflite0", "imagenette_efflite0")
SCANNED = (
    *(
        "surfaces/cgal__bull.off",
        "surfaces/common3d__spot.obj",
        "surfaces/faust_r5k__tr_reg_018.off",
    ),
    *("surfaces/odedstein__goathead.obj", "mpz14/armadillo.obj", "mpz14/kitten.obj"),
)
TABLES = " ".join(f"{DATA}/embeddings/{name}.npz" for name in EMBEDDINGS)
OURS = "--way ours --volumes 0"
State = Literal["confirmed", "stale", "unconfirmed"]


@dataclass(frozen=True)
class Result:
    """The command that writes a file, and the sample that it keeps: a name of `samples` and its
    inputs.
    """

    command: str
    sample: str | None
    inputs: dict[str, Any] = field(default_factory=dict)
    gpu: bool = False


def _kept(name: str, command: str) -> str:
    return f"python -m benchmarks.keep {name} {command}"


def _bench(command: str, sample: str | None, **inputs: Any) -> Result:
    return Result(f"python -m benchmarks.{command}", sample, inputs, gpu="--device cuda" in command)


# Sizes of samples: seconds each on two cores.
CLOUD = {"n": 600, "k": 12}
SHAPE = {"n": 400, "k": 20}

RESULTS = {
    "surfaces.json": Result(
        _kept("surfaces.json", f"evaluate surfaces {DATA}/mpz14 --no-figures"),
        "alignment",
        SHAPE | {"methods": ["direct", "robust"]},
    ),
    "neighbours.json": Result(
        _kept(
            "neighbours.json",
            f"evaluate neighbours {DATA}/surfaces --points 500 1500 --noise 0 0.01",
        ),
        "neighbours",
        {"n": 400},
    ),
    "scans.json": Result(
        _kept(
            "scans.json",
            f"evaluate scans {' '.join(f'{DATA}/{name}' for name in SCANNED)} --points 2000",
        ),
        "scans",
        {"n": 400, "kinds": ["rings:4", "noise:0.01", "strays:0.05"]},
    ),
    "generalisation_mpz14.json": Result(
        _kept("generalisation_mpz14.json", f"reproduce generalisation {DATA}/mpz14 --way ours"),
        "unseen",
        {"n": 300, "k": 10},
    ),
    "generalisation_shrec07.json": Result(
        _kept(
            "generalisation_shrec07.json",
            f"reproduce generalisation '{DATA}/surfaces/shrec07*' {OURS}",
        ),
        "unseen",
        {"n": 300, "k": 10},
    ),
    "generalisation_deftransfer.json": Result(
        _kept(
            "generalisation_deftransfer.json",
            f"reproduce generalisation '{DATA}/surfaces/deftransfer*' {OURS}",
        ),
        "unseen",
        {"n": 300, "k": 10},
    ),
    "toy1d.json": Result(_kept("toy1d.json", "reproduce toy1d --way both"), "toy", {"steps": 10}),
    "maps.json": _bench(f"maps {TABLES}", "layout", n=240, k=6),
    "scale_cpu.json": _bench("scale", "decomposition", **CLOUD),
    "scale_cuda.json": _bench("scale --device cuda", "decomposition", **CLOUD),
    "noisy_cuda.json": _bench("noisy --device cuda", "noisy", n=4000, k=12),
    "sweep_*.json": _bench(
        "sweep --rows 10000 --large 300000 --device cuda --minutes 1", "table", n=300, k=6
    ),
    "robustness.json": _bench(
        f"robustness {DATA}/mpz14", "alignment", **SHAPE, methods=["direct", "pretrained"]
    ),
    "operators.json": _bench(f"operators {DATA}/mpz14 --nine", "operators", n=500),
    "retrieval.json": _bench(f"retrieval {DATA}/surfaces", "operators", n=500),
    "direct_cpu.json": _bench("direct", "decomposition", **CLOUD),
    "direct_cuda.json": _bench(
        "direct --device cuda --sizes 100000 1000000 --embeddings", "decomposition", **CLOUD
    ),
    "multigrid.json": _bench("multigrid", "decomposition", **CLOUD),
    "calibration.json": _bench(
        f"calibration {DATA}/surfaces --points 1500", "uncertainty", **CLOUD
    ),
    "training_cpu.json": _bench("training loss step --device cpu", "loss", n=300, k=8, m=40),
    "training_cuda.json": _bench("training loss step --device cuda", "loss", n=300, k=8, m=40),
    "training_shapes_*.json": _bench(
        "training shapes --device cuda --steps 300", "fit", n=300, k=6, steps=3
    ),
    "paper_overfit*.json": _bench(
        "paper overfit --data carried/overfit --device cuda", "paper_overfit", n=300, k=10, steps=3
    ),
    "paper_released*.json": _bench(
        "released carried/paper/*_faces.npz --device cuda --seconds 225 --budget 66",
        "paper_released",
        n=300,
        k=6,
        steps=3,
    ),
    "paper_image_loss.json": _bench(
        f"image_loss {DATA}/embeddings/imagenette_efflite0.npz free", "image_loss", n=120
    ),
    "paper_eigenvalues.json": _bench(
        "eigenvalues carried/paper/*_faces.npz --m 200 --device cpu",
        "eigenvalues",
        n=150,
        k=8,
        m=40,
    ),
    "paper_variants.json": _bench(
        "paper together --data carried/paper --device cuda --seconds 500", None
    ),
    "paper_controls.json": _bench(
        "paper controls --data carried/overfit --device cuda", "paper_overfit", n=300, k=10, steps=3
    ),
    "paper_generalisation.json": _bench(
        "paper generalisation --text --data carried/unseen --device cuda",
        "paper_generalisation",
        n=200,
        k=6,
        steps=2,
    ),
    "paper_unseen_controls.json": _bench(
        f"paper unseen_controls {DATA}/mpz14 {DATA}/surfaces", "unseen_controls", n=300, k=10
    ),
    "paper_images_*.json": _bench(
        f"paper images {TABLES} --steps 10000 --device cuda", "paper_images", n=120, steps=2
    ),
    "embedding_cpu.json": _bench(f"embedding {TABLES} --rows 1000000", "table", n=300, k=6),
    "embedding_cuda.json": _bench("embedding --device cuda --rows 1000000", "table", n=300, k=6),
    "mutants.json": _bench(
        "mutants --own --each 20 --seed 31337420", None
    ),  # of the sources themselves: of its commit only
    "probes_learned.json": _bench(
        f"probes learned {DATA}/mpz14 --n 400 --k 20", "probes_learned", n=300, k=6
    ),
    "probes_mass.json": _bench(
        f"probes mass {DATA}/mpz14 --n 1600 --k 20 --steps 150", "probes_mass", n=400, k=6, steps=2
    ),
    "probes_losses.json": _bench(
        f"probes losses {DATA}/mpz14 --names horse kitten bimba --n 800 --k 20 --steps 150",
        "probes_losses",
        n=300,
        k=6,
        steps=2,
    ),
} | {
    f"images_{name}.json": _bench(
        f"clusters {DATA}/embeddings/{name}.npz --jobs 2",
        "clusters",
        n=240,
        methods=["direct", "pca", "isomap"],
    )
    for name in EMBEDDINGS
}


def made_by(name: str) -> Result:
    """What makes a file; a name in the catalogue may be a pattern."""
    for pattern, result in RESULTS.items():
        if fnmatch(name, pattern):
            return result
    raise SystemExit(f"benchmarks.catalogue: no command makes {name}: add it to RESULTS")


def state(name: str, content: dict[str, Any]) -> State:
    """What the sample of a file says of it today; one of another measurement says nothing."""
    sample = content.get("sample")
    if sample is None or sample["of"] != made_by(name).sample:
        return "unconfirmed"
    return "confirmed" if agrees(sample) else "stale"


def states(name: str, results: Path) -> list[State]:
    """Of all files of a name or pattern."""
    return [state(path.name, json.loads(path.read_text())) for path in sorted(results.glob(name))]


def words(command: str) -> list[str]:
    """A command with the folder of data in place and patterns of files expanded, but for `keep`,
    which expands them itself.
    """
    if "$DATA" in command and "DATA" not in os.environ:
        raise SystemExit(
            f"benchmarks.catalogue: {command} needs data: set DATA to the folder that "
            "docs/results.md describes"
        )
    given = shlex.split(os.path.expandvars(command))
    if "benchmarks.keep" in given:
        return given
    return [found for word in given for found in (sorted(glob.glob(word)) or [word])]


def run(names: list[str]) -> int:
    """Run the commands; how many failed."""
    failed = []
    for name in names:
        command = words(RESULTS[name].command)
        print(f"\n== {name}: {RESULTS[name].command}", flush=True)
        if subprocess.run([sys.executable, *command[1:]], cwd=ROOT).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="files to make, all by default")
    parser.add_argument(
        "--gpu", action="store_true", help="those that need a GPU instead of the others"
    )
    parser.add_argument("--stale", action="store_true", help="only those that are not confirmed")
    parser.add_argument("--list", action="store_true", help="say which are confirmed and stop")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RESULTS):
        parser.error(f"no command makes {sorted(unknown)[0]}, there are {', '.join(RESULTS)}")
    names = options.names or [
        name for name, result in RESULTS.items() if options.list or result.gpu == options.gpu
    ]
    found = {
        name: states(name, ROOT / "benchmarks" / "results")
        for name in names
        if options.list or options.stale
    }
    if options.list:
        for name, each in found.items():
            said = ", ".join(dict.fromkeys(each)) or "missing"
            print(f"{said:12s} {name}: {RESULTS[name].command}", flush=True)
        return
    sys.exit(min(run([name for name in names if set(found.get(name, ())) != {"confirmed"}]), 1))


if __name__ == "__main__":
    main()
