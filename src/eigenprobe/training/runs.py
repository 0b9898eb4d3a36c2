"""One function that runs a module on data: devices, logs, checkpoints, resumption, interruption.

`RunSettings` holds what a run needs beyond the module and its data; everything about devices goes to Lightning's own
flags (`accelerator`, `devices`, `num_nodes`, `strategy`), so single device, DDP and several nodes differ in nothing
else.
"""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_only

from ..annotations import door
from ..errors import InputError
from ..host.files import locked_folder
from ..host.progress import enabled as progress_enabled
from ..networks import RANDOMNESS
from .callbacks import Averaged, Bar, Capture, Checkpoints, check_source, last_checkpoint
from .module import SpectralModule

INTERRUPTED = 1  # the exit code by which Lightning ends a run on Ctrl-C


@door
@dataclass(frozen=True)
class RunSettings:
    """How to run.  ``folder`` receives checkpoints and logs; without one nothing is written.

    ``resume`` is ``"auto"`` (continue from ``folder/last.ckpt`` if it is there) or ``"never"``.  ``average`` is the
    decay of the averaged weights (0: none).  ``logs`` writes CSV and TensorBoard files.  ``source`` says what is
    learned (names and digests); a checkpoint of something else is refused.  ``flags`` are further arguments of
    Lightning's ``Trainer``.
    """

    folder: Path | None = None
    resume: Literal["auto", "never"] = "auto"
    device: str = "auto"
    accumulate: int = 1
    average: float = 0.0
    checkpoint_every: int = 200
    validate_every: int = 0
    logs: bool = True
    source: dict[str, str] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> torch.device:
        """The device, ``"auto"`` resolved."""
        best = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(best if self.device == "auto" else self.device)


def train(module: SpectralModule, data: Any, settings: RunSettings | None = None) -> pl.Trainer:
    """Train ``module`` on a data module to the end of its schedule; returns Lightning's trainer.

    An interrupt saves a checkpoint first and then raises ``KeyboardInterrupt``.
    """
    settings = settings or RunSettings()
    if settings.accumulate > 1 and module.accelerate == "graph":
        raise InputError("CUDA graphs reuse their gradients: expected accumulate=1 with accelerate='graph'")
    callbacks: list[pl.Callback] = [Averaged(settings.average)] if settings.average > 0 else []
    callbacks += [Capture()] if module.accelerate != "none" else []
    if settings.folder is not None:
        callbacks.append(Checkpoints(settings.folder, settings.checkpoint_every, settings.source))
    callbacks += [Bar()] if progress_enabled() else []
    flags: dict[str, Any] = {
        **devices(settings.where),
        "max_steps": module.optimisation.steps,
        "accumulate_grad_batches": settings.accumulate,
        "logger": _loggers(settings.folder) if settings.logs else False,
        "log_every_n_steps": module.log_every,
        **dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False),
        "num_sanity_val_steps": 0,
        "limit_val_batches": 1.0 if settings.validate_every else 0,
        "check_val_every_n_epoch": None,
        "val_check_interval": settings.validate_every * settings.accumulate or None,
        "use_distributed_sampler": False,
        **settings.flags,
    }
    flags["callbacks"] = callbacks + list(settings.flags.get("callbacks", []))
    checkpoint = last_checkpoint(settings.folder) if settings.resume == "auto" else None
    if checkpoint is not None:
        check_source(checkpoint, settings.source)
    alone = settings.folder is None or getattr(rank_zero_only, "rank", 0) != 0  # one process of a run takes the lock
    lock = nullcontext() if alone else locked_folder(settings.folder or "")
    # Dropout draws from the generators of the process: seeded inside, restored after, by one thread at a time.
    with lock, RANDOMNESS, _quiet(), torch.random.fork_rng():
        trainer, interrupt = pl.Trainer(**flags), signal.getsignal(signal.SIGINT)
        try:
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        except SystemExit as error:
            if error.code != INTERRUPTED:  # terminated: by Lightning's handler, which gives no code, or by the caller's
                raise SystemExit(error.code or 128 + signal.SIGTERM) from error
            signal.signal(signal.SIGINT, interrupt)  # Lightning leaves it ignored
            raise KeyboardInterrupt("training was interrupted; its checkpoint is saved") from error
    return trainer


def devices(device: str | torch.device) -> dict[str, Any]:
    """Lightning's flags for a device."""
    where = torch.device(device)
    if where.type == "cuda":
        return {"accelerator": "gpu", "devices": 1 if where.index is None else [where.index]}
    return {"accelerator": where.type, "devices": 1}


def _loggers(folder: Path | None) -> Any:
    if folder is None:
        return False
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

    # The first has a new version each time: it would empty an old file.
    return [CSVLogger(folder, name="csv"), TensorBoardLogger(folder, name="", version="tensorboard")]


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning announces devices and warns about loaders that are right here; the library stays silent."""
    names = ("lightning.pytorch", "lightning.fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning\..*")
        warnings.filterwarnings("ignore", message=r".*(does not have many workers|GPU available but not used).*")
        warnings.filterwarnings("ignore", message=r".*Sparse CSR tensor support.*")
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
