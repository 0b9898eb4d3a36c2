"""What one training step sees: clouds and the covariance (or the probes) to reconstruct on them.

    points (b, n, d);  mask (b, n) True at real points;  weight (b, n) = sqrt(mass)
    features Z = weight * network(points)  (b, n, K)

Where the smoother knows the mass, the network learns the unnormalised functions ``V``, which do not depend on the
sampling, and ``Q = M^{1/2} V`` carries the sampling.  A `row` smoother knows no mass: the weight is None and ``q_1``
learns it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from ..probes.objective import Objective, nested_basis

Draw = Callable[[torch.Generator], Tensor]


@dataclass
class Batch:
    """One batch of clouds.

    ``covariance`` has ``apply(x)`` and ``trace()`` (`Covariance`, `DenseCovariance`); ``probes`` is a tensor ``(b, n,
    m)`` or a function that draws one from a generator; ``optimum (b,)`` is the closed-form loss, where it is known.
    """

    points: Tensor
    weight: Tensor | None = None
    mask: Tensor | None = None
    covariance: Any = None
    trace: Tensor | None = None
    probes: Tensor | Draw | None = None
    optimum: Tensor | None = None

    def __post_init__(self) -> None:
        if self.trace is None and self.covariance is not None:
            self.trace = self.covariance.trace()

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The batch on a device; what is already there is not copied."""
        moved = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                moved[field.name] = value.to(device, non_blocking=non_blocking)
            elif field.name == "covariance" and hasattr(value, "to"):
                moved[field.name] = value.to(device)
        return replace(self, **moved)

    def weigh(self, features: Tensor) -> Tensor:
        """``Z = sqrt(mass) * features``, float32 or better, padding set to 0."""
        features = features.float() if features.dtype in (torch.bfloat16, torch.float16) else features
        if self.weight is not None:
            features = features * self.weight.unsqueeze(-1)
        return features if self.mask is None else features * self.mask.unsqueeze(-1)

    def vectors(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """``V = M^-1/2 Q (b, n, K)`` of the network's features and the mass ``(b, n)``: known, or learned as q_1^2."""
        q = nested_basis(self.weigh(features))
        root = q[..., 0] if self.weight is None else self.weight.double()
        return q / root.unsqueeze(-1), root.square()

    def losses(self, objective: Objective, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The objective ``(b,)`` of the network's features ``(b, n, K)``."""
        z = self.weigh(features)
        if objective.kind == "sampled":
            probes = self.probes
            if callable(probes) and not isinstance(probes, Tensor):
                probes = probes(torch.Generator(z.device) if generator is None else generator)
            return objective.reduce(*objective.errors(z, probes=probes))
        covariance = None if self.covariance is None else self.covariance.apply
        return objective.reduce(*objective.errors(z, covariance=covariance, trace=self.trace))
