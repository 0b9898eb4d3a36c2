"""Which command makes which file of benchmarks/results, and from which sources.

    python -m benchmarks.catalogue                  run all commands that need no GPU (`make results`): some hours
    python -m benchmarks.catalogue --gpu            run the others (`make results-gpu`)
    python -m benchmarks.catalogue --stale [--gpu]  only those whose sources have changed since
    python -m benchmarks.catalogue --list           say which files are stale

A file carries a hash of the definitions that its benchmark can reach (`reached`) in the rooms that it measures: of what
they do, so that comments and docstrings do not count, and of model weights as they are. A function that a measurement
never calls does not make it stale. `make readme` refuses a file whose hash is another one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.reached import reached

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "eigenprobe"
DATA = "../shared/data"

CORE = ("cloud.py", "graph", "smoothers", "eigen", "decomposition")
NEIGHBOURS = ("pretrained/neighbours.py", "networks/shortcut.py", "pretrained/shortcuts")
ORACLE = ("geometry/oracle.py", "geometry/mesh.py", "evaluation/alignment.py", "evaluation/samples.py")
MODEL = ("pretrained/model.py", "pretrained/prediction.py", "pretrained/surface", "networks/spectral.py")
TABLES = ("graph", "smoothers/neighbourhood.py", "eigen", "extensions", "estimators")
TRAINING = ("probes", "networks/transformer.py", "training")
PAPER = ("cloud.py", "graph", "smoothers", *TRAINING, "paper/single.py", "paper/amortised.py", "paper/published.py")
ROOMS = ("probes", "smoothers", "eigen", "extensions", "estimators")  # whose tests are tried
EMBEDDINGS = ("banking77_minilm", "cifar10_efflite0", "imagenette_efflite0")


@dataclass(frozen=True)
class Result:
    """The command that writes a file, the rooms that it measures (below src/eigenprobe), and what it calls, if that is
    not the benchmark as a whole: entries of `reached`."""

    command: str
    sources: tuple[str, ...]
    gpu: bool = False
    entries: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The benchmark's file."""
        return shlex.split(self.command)[2].replace(".", "/") + ".py"


def _kept(name: str, command: str) -> str:
    return f"python -m benchmarks.keep {name} {command}"


RESULTS = (
    {
        "surfaces.json": Result(
            _kept("surfaces.json", f"evaluate surfaces {DATA}/mpz14 --no-figures"),
            (*CORE, *NEIGHBOURS, *ORACLE),
            entries=("src/eigenprobe/evaluation/surfaces.py",),
        ),
        "neighbours.json": Result(
            _kept(
                "neighbours.json", f"evaluate surfaces {DATA}/surfaces --points 500 1500 4000 --noise 0 0.01 --jobs 2"
            ),
            (*CORE, *NEIGHBOURS, *ORACLE, "evaluation/neighbours.py"),
            entries=("src/eigenprobe/evaluation/neighbours.py",),
        ),
        "generalisation_mpz14.json": Result(
            _kept("generalisation_mpz14.json", f"reproduce generalisation {DATA}/mpz14 --no-figures"),
            (*CORE, *ORACLE, *MODEL),
            entries=("src/eigenprobe/paper/generalisation.py",),
        ),
        "generalisation_shrec07.json": Result(
            _kept(
                "generalisation_shrec07.json",
                f"reproduce generalisation '{DATA}/surfaces/shrec07*' --volumes 0 --no-figures",
            ),
            (*CORE, *ORACLE, *MODEL),
            entries=("src/eigenprobe/paper/generalisation.py",),
        ),
        "toy1d.json": Result(
            _kept("toy1d.json", "reproduce toy1d --way both"),
            ("smoothers", "probes", "training", "networks/transformer.py", "paper/toy1d.py"),
            entries=("src/eigenprobe/paper/toy1d.py",),
        ),
        "probe_scale.json": Result(
            f"python -m benchmarks.probe_scale {DATA}/mpz14", (*CORE, *ORACLE, "probes/learned.py")
        ),
        "maps.json": Result(
            "python -m benchmarks.maps "
            + " ".join(
                f"{DATA}/embeddings/{t}.npz" for t in ("banking77_minilm", "cifar10_efflite0", "imagenette_efflite0")
            ),
            (*TABLES,),
        ),
        "scale_cpu.json": Result("python -m benchmarks.scale", (*CORE, *NEIGHBOURS, *TABLES)),
        "scale_cuda.json": Result("python -m benchmarks.scale --device cuda", (*CORE, *NEIGHBOURS, *TABLES), gpu=True),
        "cluster.json": Result("python -m benchmarks.cluster", (*CORE, *NEIGHBOURS, *TABLES, "cli/cluster.py")),
        "robustness.json": Result(
            f"python -m benchmarks.robustness {DATA}/mpz14", (*CORE, *NEIGHBOURS, *MODEL, *ORACLE)
        ),
        "operators.json": Result(
            f"python -m benchmarks.operators {DATA}/mpz14 --nine",
            (*CORE, *NEIGHBOURS, "operators", "apps/geodesics.py", *ORACLE),
        ),
        "retrieval.json": Result(
            f"python -m benchmarks.retrieval {DATA}/surfaces", (*CORE, *NEIGHBOURS, "apps", *ORACLE)
        ),
        "direct_cpu.json": Result("python -m benchmarks.direct", (*CORE, *NEIGHBOURS, "probes/objective.py")),
        "direct_cuda.json": Result(
            "python -m benchmarks.direct --device cuda --sizes 100000 1000000 --embeddings",
            (*CORE, *NEIGHBOURS, "probes/objective.py"),
            gpu=True,
        ),
        "multigrid.json": Result("python -m benchmarks.multigrid", ("graph", "smoothers", "eigen")),
        "constants.json": Result("python -m benchmarks.constants", ("graph", "smoothers", "eigen", "estimators")),
        "encode_cpu.json": Result("python -m benchmarks.encode --device cpu", (*CORE, *NEIGHBOURS, *MODEL)),
        "encode_cuda.json": Result("python -m benchmarks.encode --device cuda", (*CORE, *NEIGHBOURS, *MODEL), gpu=True),
        "training_cpu.json": Result("python -m benchmarks.training loss step --device cpu", ("smoothers", *TRAINING)),
        "training_cuda.json": Result(
            "python -m benchmarks.training loss step --device cuda", ("smoothers", *TRAINING), gpu=True
        ),
        "training_shapes_cuda.json": Result(
            "python -m benchmarks.training shapes --device cuda", ("graph", "smoothers", "eigen", *TRAINING), gpu=True
        ),
        "paper_overfit*.json": Result(
            "python -m benchmarks.paper overfit --data carried/overfit --device cuda",
            PAPER,
            gpu=True,
            entries=("benchmarks/paper.py:overfit",),
        ),
        "paper_generalisation.json": Result(
            "python -m benchmarks.paper generalisation --data carried/unseen --device cuda",
            (*PAPER, "pretrained/shapes.py", "geometry/procedural"),
            gpu=True,
            entries=("benchmarks/paper.py:generalisation",),
        ),
        "embedding_cpu.json": Result(
            f"python -m benchmarks.embedding {' '.join(f'{DATA}/embeddings/{name}.npz' for name in EMBEDDINGS)}"
            " --rows 1000000",
            (*TABLES, *TRAINING),
        ),
        "embedding_cuda.json": Result(
            "python -m benchmarks.embedding --device cuda --rows 1000000", (*TABLES, *TRAINING), gpu=True
        ),
        "mutants.json": Result(
            "python -m benchmarks.mutants --each 16 --seed 1717",
            ROOMS,
            entries=("benchmarks/mutants.py", *(f"src/eigenprobe/{room}" for room in ROOMS)),
        ),
    }
    | {
        f"probes_{name}.json": Result(
            f"python -m benchmarks.probes {name} {DATA}/mpz14{options}",
            ("graph", "smoothers", "probes", "training", *ORACLE),
            entries=(f"benchmarks/probes.py:{name}",),
        )
        for name, options in (
            ("families", " --n 500"),
            ("learned", " --n 400 --k 20"),
            ("losses", " --names horse kitten bimba --n 800 --k 20 --steps 150"),
        )
    }
    | {
        f"images_{name}.json": Result(
            f"python -m benchmarks.clusters {DATA}/embeddings/{name}.npz --jobs 2",
            (*TABLES, *TRAINING, "evaluation/clustering.py"),
        )
        for name in EMBEDDINGS
    }
)


def made_by(name: str) -> Result:
    """What makes a file; a name in the catalogue may be a pattern."""
    for pattern, result in RESULTS.items():
        if fnmatch(name, pattern):
            return result
    raise SystemExit(f"benchmarks.catalogue: no command makes {name}: add it to RESULTS")


def digest(name: str, sources: tuple[str, ...] | None = None) -> str:
    """The hash of what a file measures, its benchmark among it; of ``sources`` alone: what a part of it measures."""
    result = made_by(name)
    rooms = [SOURCE / source for source in (result.sources if sources is None else sources)]
    others = [file for room in rooms for file in sorted(room.rglob("*")) if file.suffix not in (".py", ".md")]
    kept = [file for file in others if file.is_file() and "__pycache__" not in file.parts]
    lines = [f"{_path(file)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in kept]
    rooms += [ROOT / result.module] if sources is None else []
    found = reached(result.entries or (result.module,), ROOT)
    inside = sorted(place for place in found if any(place[0].is_relative_to(room) for room in rooms))
    lines += [f"{_path(file)} {name} {found[file, name]}" for file, name in inside]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _path(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def stale(name: str, content: dict[str, Any]) -> bool:
    """Whether the sources are others than those that a file was made from."""
    return content.get("sources") != digest(name)


def _is_stale(path: Path) -> bool:
    return stale(path.name, json.loads(path.read_text()))


def run(names: list[str]) -> int:
    """Run the commands; how many failed."""
    failed = []
    for name in names:
        words = shlex.split(RESULTS[name].command)
        print(f"\n== {name}: {RESULTS[name].command}", flush=True)
        if subprocess.run([sys.executable, *words[1:]], cwd=ROOT).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files to make, all by default")
    parser.add_argument("--gpu", action="store_true", help="those that need a GPU instead of the others")
    parser.add_argument("--stale", action="store_true", help="only those that are missing or stale")
    parser.add_argument("--list", action="store_true", help="say which are stale and stop")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RESULTS):
        parser.error(f"no command makes {sorted(unknown)[0]}, there are {', '.join(RESULTS)}")
    stored = ROOT / "benchmarks" / "results"
    old = [n for n in RESULTS if not (found := list(stored.glob(n))) or any(_is_stale(path) for path in found)]
    if options.list:
        for name, result in RESULTS.items():
            print(f"{'stale' if name in old else 'fresh'}  {name}: {result.command}")
        return
    names = options.names or [name for name, result in RESULTS.items() if result.gpu == options.gpu]
    sys.exit(min(run([name for name in names if name in old or not options.stale]), 1))


if __name__ == "__main__":
    main()
