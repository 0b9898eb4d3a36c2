"""How long and how fast a network is trained by the clock.

rate(t) = highest * factor(progress),    progress = max(seconds / budget, step / steps)
"""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. `minutes` is the whole budget over all pieces, `piece` that of this
    command (0: no limit); `steps` ends a run earlier. The rate warms up, stays, and falls linearly
    to zero over the last `cooldown` share.
    """

    minutes: float = 14.0
    piece: float = 0.0
    steps: int = 1_000_000
    optimiser: Literal["muon", "adamw"] = "muon"
    rate: float = 0.01
    adam_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup: float = 0.01
    cooldown: float = 0.6
    clip: float = 1.0

    def factor(self, progress: float) -> float:
        """Rate at a share of the run, relative to the highest."""
        if progress < self.warmup:
            return max(0.02, progress / self.warmup)
        return min(1.0, max(0.0, (1 - progress) / self.cooldown))


@dataclass(frozen=True)
class TimedSettings:
    """What all recipes of timed training have: batches are prepared in blocks of ``block``, each of
    which is seen ``passes`` times, in a new order each time; ``average`` is the decay of the
    averaged weights.
    """

    schedule: Schedule = field(default_factory=Schedule)
    block: int = 32
    passes: int = 4
    average: float = 0.998
    checkpoint_every: int = 500
    seed: int = 0
