"""One function that runs a module on data: devices, logs, checkpoints, resumption, interruption,
and its callbacks.

`RunSettings` holds what a run needs beyond the module and its data; everything about devices goes
to Lightning's own flags (`accelerator`, `devices`, `num_nodes`, `strategy`), so single device, DDP
and several nodes differ in nothing else.  `Checkpoints` writes ``last.ckpt`` beside its final place
and renames it, so a run killed in the middle of a write still has the one before.  It saves every
few steps, at the end, and when the run is interrupted (Ctrl-C, SIGTERM) or fails.
"""

from __future__ import annotations

import logging
import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch

from ..errors import InputError
from ..host.device import resolved
from ..host.files import Facts, atomic_path, locked_folder, reading
from ..host.progress import Progress
from ..host.validation import validated
from ..host.weights import RANDOMNESS
from .module import SpectralModule

log = logging.getLogger(__name__)
LAST = "last.ckpt"
SOURCE = "eigenprobe_source"  # key of a checkpoint
ANEW = (
    "choose another folder, or start again by resume='never' (on the command line --resume never)"
)


def last_checkpoint(folder: str | Path | None) -> Path | None:
    """The checkpoint to resume from, if the folder has one."""
    return Path(folder) / LAST if folder is not None and (Path(folder) / LAST).is_file() else None


def check_source(path: Path, source: Mapping[str, str]) -> None:
    """An error where the checkpoint is of another cloud, size or recipe than ``source``."""
    with reading(path, "a checkpoint"):
        whole = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        if not isinstance(whole, dict) or not {"state_dict", "optimizer_states", "loops"} <= set(
            whole
        ):
            raise InputError(f"{path} is not the checkpoint of a run: {ANEW}")
    stored = whole.get(SOURCE, {})
    differing = [name for name in source if name in stored and stored[name] != source[name]]
    if differing:
        others = ", ".join(differing)
        raise InputError(f"{path} belongs to another run ({others} differ): {ANEW}")


class Checkpoints(pl.Callback):
    """Save the whole state of a run to ``folder/last.ckpt`` every ``every`` optimiser steps.

    ``source`` says what is learned, as names and digests; it is kept in the checkpoint for
    `check_source`.
    """

    def __init__(
        self, folder: str | Path, every: int = 200, source: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.every, self.source = Path(folder), every, dict(source or {})
        self.saved = -1

    def on_save_checkpoint(
        self, trainer: pl.Trainer, module: pl.LightningModule, checkpoint: Facts
    ) -> None:
        checkpoint[SOURCE] = self.source

    def save(self, trainer: pl.Trainer) -> Path:
        """Write what is new; every process must call it."""
        target = self.folder / LAST
        # Between two optimiser steps of an accumulation there is nothing new to save.
        if trainer.global_step != self.saved:
            with atomic_path(target) if trainer.is_global_zero else nullcontext(target) as path:
                # Only the first process writes, all of them wait for it.
                trainer.save_checkpoint(path)
            self.saved = trainer.global_step
        return target

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        if trainer.global_step % self.every == 0:
            self.save(trainer)

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.save(trainer)

    def on_exception(
        self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException
    ) -> None:
        if trainer.global_step > 0 and trainer.world_size == 1:
            # A collective save could wait for ever for a process that failed; the periodic one
            # stands then.
            log.warning(
                "%s: saved %s at step %d",
                type(exception).__name__,
                self.save(trainer),
                trainer.global_step,
            )


class Bar(pl.Callback):
    """How much of the training is done, of its steps or of its time."""

    EVERY = 1.0  # seconds between two looks at the numbers, which the device must finish for
    SHOWN = "train/progress"  # by the bar itself

    def __init__(self, bar: Progress) -> None:
        self.bar, self.looked = bar, time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, *_: object
    ) -> None:
        done, note = trainer.global_step / max(1, trainer.max_steps), None
        share = getattr(module, "progress", done)
        if time.monotonic() - self.looked > self.EVERY:
            self.looked, metrics = time.monotonic(), trainer.progress_bar_metrics
            note = ", ".join(
                f"{name} {float(value):.4g}"
                for name, value in metrics.items()
                if name != self.SHOWN
            )
        self.bar.advance(share - self.bar.done, note)


INTERRUPTED = 1  # the exit code by which Lightning ends a run on Ctrl-C


@validated
@dataclass(frozen=True)
class RunSettings:
    """How to run.  ``folder`` receives checkpoints and logs; without one nothing is written.

    ``resume`` is ``"auto"`` (continue from ``folder/last.ckpt`` if it is there) or ``"never"``.
    ``logs`` writes CSV and TensorBoard files.  ``source`` says what is learned (names and digests);
    a checkpoint of something else is refused.  ``flags`` are further arguments of Lightning's
    ``Trainer``.
    """

    folder: Path | None = None
    resume: Literal["auto", "never"] = "auto"
    device: str = "auto"
    accumulate: int = 1
    checkpoint_every: int = 200
    validate_every: int = 0
    logs: bool = True
    source: dict[str, str] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> torch.device:
        """The device, ``"auto"`` resolved."""
        return resolved(self.device)

    def watched(self, *callbacks: pl.Callback) -> RunSettings:
        """The same with further callbacks."""
        known = self.flags.get("callbacks", [])
        return replace(self, flags=self.flags | {"callbacks": [*known, *callbacks]})


def train(
    module: SpectralModule, data: pl.LightningDataModule, settings: RunSettings | None = None
) -> pl.Trainer:
    """Train ``module`` on a data module to the end of its schedule; returns Lightning's trainer.

    An interrupt saves a checkpoint first and then raises ``KeyboardInterrupt``.
    """
    settings = settings or RunSettings()
    if settings.accumulate > 1 and module.accelerate == "graph":
        raise InputError(
            "CUDA graphs reuse their gradients: expected accumulate=1 with accelerate='graph'"
        )
    callbacks: list[pl.Callback] = list(settings.flags.get("callbacks", []))
    if settings.folder is not None:
        callbacks.append(Checkpoints(settings.folder, settings.checkpoint_every, settings.source))
    logger: Any = False
    if settings.logs and settings.folder is not None:
        from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

        # The first has a new version each time: it would empty an old file.
        first = CSVLogger(settings.folder, name="csv")
        logger = [first, TensorBoardLogger(settings.folder, name="", version="tensorboard")]
    flags: dict[str, Any] = {
        **devices(settings.where),
        "max_steps": module.optimisation.steps,
        "accumulate_grad_batches": settings.accumulate,
        "logger": logger,
        "log_every_n_steps": module.log_every,
        **dict.fromkeys(
            ("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
        ),
        "num_sanity_val_steps": 0,
        "limit_val_batches": 1.0 if settings.validate_every else 0,
        "check_val_every_n_epoch": None,
        "val_check_interval": settings.validate_every * settings.accumulate or None,
        "use_distributed_sampler": False,
        **settings.flags,
    }
    checkpoint = last_checkpoint(settings.folder) if settings.resume == "auto" else None
    if checkpoint is not None:
        check_source(checkpoint, settings.source)
    # Dropout draws from the generators of the process: seeded inside, restored after, by one thread
    # at a time.
    with RANDOMNESS, _quiet(), torch.random.fork_rng(), Progress("training", 1.0) as bar:
        # Checkpoints come last: they keep what the others have done.
        flags["callbacks"] = [Bar(bar), *callbacks]
        trainer, interrupt = pl.Trainer(**flags), signal.getsignal(signal.SIGINT)
        folder = settings.folder if trainer.is_global_zero else None  # locked by one process
        try:
            with nullcontext() if folder is None else locked_folder(folder):
                trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
        except SystemExit as error:
            kept = last_checkpoint(settings.folder)
            saved = "nothing of it is saved"
            if kept is not None:
                saved = f"{kept} is saved, the same command goes on from it"
            # Terminated: by Lightning's handler, which gives no code, or by the caller's.
            if error.code != INTERRUPTED:
                stop = SystemExit(error.code or 128 + signal.SIGTERM)
                stop.add_note(f"training was stopped; {saved}")
                raise stop from error
            signal.signal(signal.SIGINT, interrupt)  # Lightning leaves it ignored
            raise KeyboardInterrupt(f"training was interrupted; {saved}") from error
    return trainer


def devices(device: str | torch.device) -> dict[str, Any]:
    """Lightning's flags for a device."""
    where = torch.device(device)
    kind = "gpu" if where.type == "cuda" else where.type
    return {"accelerator": kind, "devices": 1 if where.index is None else [where.index]}


@contextmanager
def _quiet() -> Iterator[None]:
    """Lightning announces devices and warns about loaders that are right here; the library stays
    silent.
    """
    names = ("lightning.pytorch", "lightning.fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning\..*")
        known = (
            "does not have many workers|GPU available but not used|Sparse CSR tensor|AccumulateGrad"
        )
        warnings.filterwarnings("ignore", message=f".*({known}).*")
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
