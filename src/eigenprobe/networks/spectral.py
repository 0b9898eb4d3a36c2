r"""The amortised network: a cloud in canonical pose, diffused polynomials as inputs, a transformer, a basis.

    pose      x <- (x - mean) Axes Signs / rms             principal axes, signs by skewness, mass-weighted
    inputs    F = [x, waves(x), heat_8(P_3), heat_40(P_4), heat(x) - x, sampling, scale]    P_d: monomials to degree d
    output    Z = transformer(F) + diffused polynomials;  Q = orthonormalise(M^{1/2} [1, Z])

The diffused polynomials are `M`-orthonormal, lowest degree first: a crude basis, which the network corrects. Every
second layer attends between channels instead of points: `V (K^T Q)`, Gram matrices, of which eigenvectors are made.

Shapes: `points (b, n, 3)` -> `Z (b, n, K - 1)`, the constant being known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import torch
from torch import Tensor, nn

from .heat import HeatOperator, heat_coefficients
from .transformer import Layer, Transformer, TransformerConfig

_LEVELS = (40.0, 8.0)
_POWERS = [c for degree in range(1, 5) for c in combinations_with_replacement(range(3), degree)]  # 34 monomials
_CUBIC = 19  # of them up to degree 3
INPUTS = 3 + 12 + 34 + 19 + 6 + 1 + 5


@dataclass(frozen=True)
class SpectralConfig:
    """Sizes of a `SpectralNetwork`; `channel_every` = 2 makes every second layer attend between channels (0: none);
    `polish` smooths the output by the heat kernel with that trace (0: not at all)."""

    outputs: int = 50
    width: int = 384
    layers: int = 8
    heads: int = 6
    feedforward: int = 768
    point: tuple[int, ...] = (384,)
    channel_every: int = 2
    polish: float = 0.0

    def transformer(self) -> TransformerConfig:
        return TransformerConfig(
            inputs=INPUTS,
            point=self.point,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            feedforward=self.feedforward,
            outputs=self.outputs - 1,
        )


class ChannelAttention(nn.Module):
    """Attention between channels: values times the signed cosines of key and query channels over the cloud."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key = nn.Linear(width, 2 * width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(heads, 1, 1))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)  # (b, heads, n, width / heads)

    def memory(self, x: Tensor) -> tuple[Tensor, Tensor]:
        query, key = (nn.functional.normalize(self.split(part), dim=-2) for part in self.query_key(x).chunk(2, -1))
        gram = (key.mT @ query) * self.scale.to(key.dtype)
        return gram, gram

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        mixed = self.split(self.value(x)) @ memory[0]
        return self.out(mixed.transpose(-3, -2).flatten(-2))


class ChannelLayer(Layer):
    """A transformer layer with channel attention; padding is zeroed before the Gram matrices are formed."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.attention = ChannelAttention(config.width, config.heads)  # type: ignore[assignment]

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor] | None = None, mask: Tensor | None = None) -> Tensor:
        if memory is None and mask is not None:
            normed = self.norm_attention(x) * mask[:, 0, 0, :, None]
            memory = self.attention.memory(normed)
        return super().forward(x, memory, mask)


class SpectralTransformer(Transformer):
    """The library's transformer, with some layers attending between channels."""

    kind = "spectral"

    def __init__(self, config: SpectralConfig) -> None:
        sizes = config.transformer()
        super().__init__(sizes)
        if config.channel_every:
            for i in range(config.channel_every - 1, config.layers, config.channel_every):
                self.layers[i] = ChannelLayer(sizes)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def finish(self, x: Tensor) -> Tensor:
        """Norm and head in float32: rounding to bfloat16 would add white noise, which no eigenvector has."""
        with torch.autocast(x.device.type, enabled=False):
            return self.head(self.body(self.norm(x.float())))

    def forward(self, points: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.tokens(points)
        attend = None if mask is None else mask[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask=attend)
        features = self.finish(x)
        return features if mask is None else features * mask.unsqueeze(-1)


@dataclass
class Inputs:
    """What the network sees of a batch, and how it got there."""

    features: Tensor  # (b, n, INPUTS)
    polynomials: Tensor  # (b, n, 34) diffused, M-orthonormal
    times: Tensor  # (b, levels) of the diffusion, in units of 1 / bound
    moments: Tensor  # (b, 2 D + 1)
    pose: Tensor  # (b, 4, 3): x -> [x, 1] pose


class SpectralNetwork(nn.Module):
    """Points and their heat operator to the columns `Z`; `inputs` and `columns` are its two halves."""

    def __init__(self, config: SpectralConfig | None = None) -> None:
        super().__init__()
        self.config = config or SpectralConfig()
        self.transformer = SpectralTransformer(self.config)

    def forward(self, points: Tensor, operator: HeatOperator, pose: Tensor | None = None) -> Tensor:
        return self.columns(inputs(points, operator, pose), operator)

    def columns(self, seen: Inputs, operator: HeatOperator) -> Tensor:
        """`Z (b, n, K - 1)` in float32."""
        return self.finish(self.transformer(seen.features), seen, operator)

    def finish(self, raw: Tensor, seen: Inputs, operator: HeatOperator) -> Tensor:
        """The transformer's output to `Z`: the polynomials added, the whole polished."""
        z = add_polynomials(raw.float(), seen.polynomials)
        return self.polish(z, operator, seen.moments) if self.config.polish else z

    def polish(self, z: Tensor, operator: HeatOperator, moments: Tensor) -> Tensor:
        """Remove what no low eigenvector has: a short diffusion of the functions `Z`."""
        time = operator.times((self.config.polish,), moments)[:, 0]
        degree = max(4, operator.degree // 3)
        root = operator.mass.sqrt()[..., None]
        smooth = _Filter.apply(root * z, operator, heat_coefficients(time, degree))
        return smooth / root


class _Filter(torch.autograd.Function):
    """A symmetric filter is its own transpose, so the backward pass is the forward one."""

    @staticmethod
    def forward(ctx, x: Tensor, operator: HeatOperator, coefficients: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.operator, ctx.coefficients = operator, coefficients
        return operator.filter(x, coefficients)

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def, override]
        return ctx.operator.filter(gradient, ctx.coefficients), None, None


def add_polynomials(z: Tensor, polynomials: Tensor) -> Tensor:
    """`Z + polynomials`, column by column, on as many columns as both have."""
    common = min(z.shape[-1], polynomials.shape[-1])
    return torch.cat([z[..., :common] + polynomials[..., :common], z[..., common:]], -1)


def canonical_pose(points: Tensor, mass: Tensor) -> Tensor:
    """`(b, 4, 3)` such that `[x, 1] @ pose` is centred, on principal axes (largest first, skew positive), of rms 1."""
    weight = mass[..., None]
    mean = (weight * points).sum(1, keepdim=True)
    centred = points - mean
    covariance = (weight * centred).mT @ centred
    variance, axes = torch.linalg.eigh(covariance.double())
    axes = axes.flip(-1).to(points.dtype)
    skew = (weight * (centred @ axes) ** 3).sum(1)
    axes = axes * torch.where(skew < 0, -1.0, 1.0)[:, None]
    axes = axes / variance.sum(-1).clamp_min(1e-20).sqrt().to(points.dtype)[:, None, None]
    return torch.cat([axes, -mean @ axes], 1)


def place(points: Tensor, pose: Tensor) -> Tensor:
    return points @ pose[:, :3] + pose[:, 3:]


@torch.no_grad()
def inputs(points: Tensor, operator: HeatOperator, pose: Tensor | None = None) -> Inputs:
    """The features of `points (b, n, 3)`; `pose` replaces the canonical one (augmentation, or a context's)."""
    pose = canonical_pose(points, operator.mass) if pose is None else pose
    x = place(points, pose)
    root = operator.mass.sqrt()[..., None]
    monomials = torch.stack([torch.stack([x[..., axis] for axis in c]).prod(0) for c in _POWERS], -1)
    moments = operator.moments()
    times = operator.times(_LEVELS, moments)
    fine, coarse = operator.filter(root * monomials, heat_coefficients(times, operator.degree)).unbind(1)
    polynomials = orthonormal(fine, operator.mass)
    cubic = orthonormal(coarse[..., :_CUBIC], operator.mass)
    drift = torch.cat([smooth[..., :3] / root - x for smooth in (fine, coarse)], -1)
    # Relative to the median 10th-neighbour distance all times have units 1 / bound; n makes them comparable.
    scale = torch.cat([(times * operator.mass.shape[1] ** -1).log(), torch.zeros_like(times[:, :1])], -1)
    variance = (operator.mass[..., None] * (x - (operator.mass[..., None] * x).sum(1, keepdim=True)) ** 2).sum(1)
    context = torch.cat([scale[:, :2], variance], -1)[:, None].expand(-1, x.shape[1], -1)
    features = torch.cat(
        [
            *coordinates(x),
            polynomials.clamp(-6, 6),
            cubic.clamp(-6, 6),
            4 * drift,
            operator.spread[..., None].clamp(-3, 3),
            context,
        ],
        -1,
    )
    return Inputs(features, polynomials, times, moments, pose)


def coordinates(x: Tensor) -> list[Tensor]:
    """The inputs that are functions of the place alone: coordinates and waves."""
    return [x, (3 * x).sin(), (3 * x).cos(), (6 * x).sin(), (6 * x).cos()]


def orthonormal(x: Tensor, mass: Tensor) -> Tensor:
    """Columns of `M^{-1/2} x`, orthonormal to each other, to the constant and in this order (Cholesky, float64).

    A ridge keeps columns that diffusion has merged small instead of turning them into noise.
    """
    root = mass.sqrt()[..., None]
    full = torch.cat([root, x], -1).double()
    full = full / full.norm(dim=1, keepdim=True).clamp_min(1e-30)
    gram = full.mT @ full
    gram.diagonal(dim1=-2, dim2=-1).add_(1e-9)
    factor, _ = torch.linalg.cholesky_ex(gram)
    return (torch.linalg.solve_triangular(factor, full.mT, upper=False).mT[..., 1:] / root).float()


def resized(config: SpectralConfig, **changes: object) -> SpectralConfig:
    return replace(config, **changes)  # type: ignore[arg-type]
