"""Commands of the laboratory, which `eigenprobe` finds by entry points (``eigenprobe.commands``)."""

from dataclasses import replace

from eigenprobe.cli.arguments import Command


def evaluation() -> Command:
    """``evaluate surfaces | volumes | scans``."""
    from . import evaluate

    about = "Measure methods against the cotangent oracle, with peers beside."
    return Command.group("evaluate", about, evaluate.surfaces, evaluate.volumes, evaluate.scans)


def reproduction() -> Command:
    """``reproduce toy1d | overfit | generalisation | images | all``."""
    from . import experiments as of

    about, whole = "Run an experiment of the paper and print its table.", Command.of(of.everything)
    whole = replace(whole, name="all")
    return Command.group("reproduce", about, of.toy1d, of.overfit, of.generalisation, of.images, whole)


def caching() -> Command:
    """``cache``."""
    from .data import cache

    return Command.of(cache)


def extraction() -> Command:
    """``features``."""
    from .data import features

    return Command.of(features)
