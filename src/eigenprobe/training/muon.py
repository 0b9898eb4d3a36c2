r"""Muon for the matrices, AdamW for the rest, in one optimiser.

    matrices (p, q):  m <- beta m + g;   u = orthogonalise(g + beta m);   W <- (1 - rate wd) W - rate scale u
    others:           AdamW at `adam_rate`

`orthogonalise` is five Newton-Schulz steps of the quintic that sends every singular value close to 1. Matrices of one
shape are stacked and orthogonalised together, so that the number of kernels does not grow with depth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


def orthogonalise(x: Tensor, steps: int = 5) -> Tensor:
    """Approximate polar factors of a stack `(s, p, q)`, in bfloat16 on CUDA."""
    y = x.bfloat16() if x.is_cuda else x
    tall = y.shape[-2] > y.shape[-1]
    y = y.mT if tall else y
    y = y / y.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = y @ y.mT
        y = 3.4445 * y + (-4.7750 * gram + 2.0315 * gram @ gram) @ y
    return (y.mT if tall else y).to(x.dtype)


class Muon(torch.optim.Optimizer):
    """One optimiser for both kinds of parameters; a step with `found_inf` = 1 changes nothing."""

    found_inf: Tensor | None = None
    grad_scale: Tensor | None = None

    def __init__(
        self,
        matrices: Iterable[Tensor],
        others: Iterable[Tensor],
        rate: float = 0.01,
        adam_rate: float = 1e-3,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.01,
    ) -> None:
        groups = [
            {"params": list(matrices), "muon": True, "lr": rate},
            {"params": list(others), "muon": False, "lr": adam_rate},
        ]
        super().__init__(groups, {"momentum": momentum, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters]
            keep = None
            if self.found_inf is not None:
                # No synchronisation: a bad step multiplies by zero what a good one multiplies by one.
                keep = 1 - self.found_inf
                for gradient in gradients:
                    gradient.nan_to_num_(0.0, 0.0, 0.0)
            (self._matrices if group["muon"] else self._others)(group, parameters, gradients, keep)
        return loss

    def _matrices(
        self, group: dict[str, Any], parameters: list[Any], gradients: list[Any], keep: Tensor | None
    ) -> None:
        moments = [self._state(p, "moment") for p in parameters]
        beta = group["momentum"]
        torch._foreach_mul_(moments, beta)
        torch._foreach_add_(moments, gradients)
        updates = torch._foreach_add(gradients, moments, alpha=beta)
        by_shape: dict[torch.Size, list[int]] = defaultdict(list)
        for i, parameter in enumerate(parameters):
            by_shape[parameter.shape].append(i)
        for shape, members in by_shape.items():
            stacked = orthogonalise(torch.stack([updates[i] for i in members]))
            stacked = stacked * (group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5)
            if keep is not None:
                stacked = stacked * keep
            targets = [parameters[i] for i in members]
            torch._foreach_mul_(targets, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_sub_(targets, list(stacked.unbind(0)))

    def _others(self, group: dict[str, Any], parameters: list[Any], gradients: list[Any], keep: Tensor | None) -> None:
        first = [self._state(p, "moment") for p in parameters]
        second = [self._state(p, "square") for p in parameters]
        group["step"] = group.get("step", 0) + 1
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        scale = torch._foreach_sqrt(torch._foreach_div(second, 1 - beta2 ** group["step"]))
        torch._foreach_add_(scale, 1e-8)
        update = torch._foreach_div(first, scale)
        torch._foreach_mul_(update, group["lr"] / (1 - beta1 ** group["step"]))
        if keep is not None:
            torch._foreach_mul_(update, keep)
        torch._foreach_sub_(parameters, update)

    def _state(self, parameter: Tensor, name: str) -> Tensor:
        state = self.state[parameter]
        if name not in state:
            state[name] = torch.zeros_like(parameter)
        return state[name]
