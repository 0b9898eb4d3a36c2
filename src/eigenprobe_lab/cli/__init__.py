"""Commands of the laboratory, entered in `eigenprobe` by entry points (``eigenprobe.commands``)."""

from dataclasses import replace

from eigenprobe.cli.arguments import Command

from . import data, evaluate, experiments

EVALUATE = Command.group(
    "evaluate", "Measure methods against the cotangent oracle, with peers beside.", evaluate.surfaces, evaluate.volumes
)
REPRODUCE = Command.group(
    "reproduce",
    "Run an experiment of the paper and print its table.",
    experiments.toy1d,
    experiments.overfit,
    experiments.generalisation,
    experiments.images,
    replace(Command.of(experiments.everything), name="all"),
)
CACHE = Command.of(data.cache)
FEATURES = Command.of(data.features)
