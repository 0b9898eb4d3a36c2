"""Commands of the laboratory, which `eigenprobe` finds by entry points that return one."""

from collections.abc import Callable

from cyclopts import App


def evaluation() -> App:
    """``evaluate surfaces | neighbours | volumes | scans``."""
    from . import evaluate

    app = App("evaluate", help="Measure methods against the cotangent oracle, with peers beside.")
    for command in (evaluate.surfaces, evaluate.neighbours, evaluate.volumes, evaluate.scans):
        app.command(command)
    return app


def reproduction() -> App:
    """``reproduce toy1d | overfit | generalisation | images | all``."""
    from . import experiments as of

    app = App("reproduce", help="Run an experiment of the paper and print its table.")
    for command in (of.toy1d, of.overfit, of.generalisation, of.images):
        app.command(command)
    app.command(of.everything, name="all")
    return app


def training() -> Callable[..., None]:
    """``train``."""
    from .train import train

    return train


def caching() -> Callable[..., None]:
    """``cache``."""
    from .data import cache

    return cache


def extraction() -> Callable[..., None]:
    """``features``."""
    from .data import features

    return features
