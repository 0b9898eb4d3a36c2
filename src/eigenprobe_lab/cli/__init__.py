"""Commands of the laboratory, which `eigenprobe` finds by entry points."""

from cyclopts import App

from eigenprobe.cli.arguments import command, group


def evaluation() -> App:
    """``evaluate surfaces | volumes | scans``."""
    from . import evaluate

    about = "Measure methods against the cotangent oracle, with peers beside."
    return group("evaluate", about, evaluate.surfaces, evaluate.volumes, evaluate.scans)


def reproduction() -> App:
    """``reproduce toy1d | overfit | generalisation | images | all``."""
    from . import experiments as of

    about = "Run an experiment of the paper and print its table."
    whole = command(of.everything, "all")
    return group("reproduce", about, of.toy1d, of.overfit, of.generalisation, of.images, whole)


def training() -> App:
    """``train``."""
    from .train import train

    return command(train)


def caching() -> App:
    """``cache``."""
    from .data import cache

    return command(cache)


def extraction() -> App:
    """``features``."""
    from .data import features

    return command(features)
