"""Muon for the hidden matrices and AdamW for the rest, as one optimiser: ``torch.optim`` has both, Lightning takes one.

A step whose ``found_inf`` is 1 leaves weights, moments and step counts as they were, without asking the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class MuonAdamW(torch.optim.Optimizer):
    """The first parameter group is Muon's, the second AdamW's; both keep their state here."""

    found_inf: Tensor | None = None
    grad_scale: Tensor | None = None

    def __init__(
        self,
        matrices: Iterable[Tensor],
        others: Iterable[Tensor],
        rate: float = 0.01,
        adam_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.01,
    ) -> None:
        """``weight_decay`` is that of the matrices; biases, norms, inputs and outputs do not decay."""
        self._muon = torch.optim.Muon(list(matrices), rate, weight_decay)
        self._adamw = torch.optim.AdamW(list(others), adam_rate, betas, weight_decay=0.0, fused=True)
        super().__init__([dict(part.param_groups[0]) for part in (self._muon, self._adamw)], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part, group in zip((self._muon, self._adamw), self.param_groups):
            part.state, part.param_groups = self.state, [group]  # loading a checkpoint replaces both
        self._adamw.found_inf, self._adamw.grad_scale = self.found_inf, None  # type: ignore[attr-defined]
        self._adamw.step()
        live = [p for p in self.param_groups[0]["params"] if p.grad is not None]
        for p in live:
            self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
        live += [self.state[p]["momentum_buffer"] for p in live]
        kept = [] if self.found_inf is None else [x.clone() for x in live]  # torch's Muon knows no found_inf
        self._muon.step()
        if self.found_inf is not None:
            bad = self.found_inf > 0
            for now, before in zip(live, kept):
                torch.where(bad, before, now, out=now)
        return loss
