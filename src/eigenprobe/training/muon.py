r"""Muon for the hidden matrices, torch's AdamW for the rest, as one optimiser: Lightning takes one.

    m <- beta m + (1 - beta) g;    u = orthogonalise((1 - beta) g + beta m);    W <- (1 - rate decay) W - rate s u

`orthogonalise` sends every singular value close to 1; `s = sqrt(max(1, p / q))` for `W (p, q)` (Jordan et al. 2024,
"Muon"). `torch.optim.Muon` gives the same numbers matrix by matrix: 96 ms per step of the shipped recipe on an H200,
where matrices of one shape stacked take 76 ms. It also has no `found_inf`, without which the device must be asked at
every step whether the gradient was finite.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95


def orthogonalise(x: Tensor, steps: int = 5) -> Tensor:
    """Approximate polar factors of a stack `(s, p, q)` by Newton-Schulz steps of a quintic, in bfloat16 on CUDA."""
    y = x.bfloat16() if x.is_cuda else x
    tall = y.shape[-2] > y.shape[-1]
    y = y.mT if tall else y
    y = y / y.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = y @ y.mT
        y = 3.4445 * y + (-4.7750 * gram + 2.0315 * gram @ gram) @ y
    return (y.mT if tall else y).to(x.dtype)


class MuonAdamW(torch.optim.Optimizer):
    """The first parameter group is Muon's, the second AdamW's. A step whose `found_inf` is 1 leaves weights, moments
    and step counts as they were."""

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
        """`weight_decay` is that of the matrices; biases, norms, inputs and outputs do not decay."""
        self._adamw = torch.optim.AdamW(list(others), adam_rate, betas, weight_decay=0.0, fused=True)
        muon = {"params": list(matrices), "lr": rate, "weight_decay": weight_decay}
        super().__init__([muon, dict(self._adamw.param_groups[0])], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                by_shape[p.shape].append(p)
        for members in by_shape.values():
            self._muon(members, self.param_groups[0])
        self._adamw.state, self._adamw.param_groups = self.state, self.param_groups[1:]  # loading replaces both
        self._adamw.found_inf, self._adamw.grad_scale = self.found_inf, None  # type: ignore[attr-defined]
        self._adamw.step()
        return loss

    def _muon(self, members: list[Tensor], group: dict[str, Any]) -> None:
        """The step of all matrices of one shape; their moments are kept with the first of them."""
        gradient, weight = torch.stack([p.grad for p in members]), torch.stack(members)  # type: ignore[misc]
        moment = self.state[members[0]].setdefault("moments", torch.zeros_like(weight))
        after = moment.lerp(gradient, 1 - MOMENTUM)
        step = group["lr"] * max(1.0, weight.shape[1] / weight.shape[2]) ** 0.5
        changed = weight * (1 - group["lr"] * group["weight_decay"])
        changed -= step * orthogonalise(gradient.lerp(after, MOMENTUM))
        if self.found_inf is not None:
            bad = self.found_inf > 0
            after, changed = torch.where(bad, moment, after), torch.where(bad, weight, changed)
        moment.copy_(after)
        torch._foreach_copy_(members, list(changed.unbind(0)))
