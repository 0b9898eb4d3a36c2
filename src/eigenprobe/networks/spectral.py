r"""The amortised network: a cloud in canonical pose, diffused polynomials, a transformer, a basis.

    pose      x <- (x - mean) Axes Signs / rms
              principal axes, signs by skewness, all weighted by the mass
    P         49 diffused seeds, made orthonormal and sorted by how well they survive diffusion:
              monomials of x up to degree 4, then 15 far-apart landmarks
    G_t       P^T M exp(-t L) P at two times (49 x 49)
              how diffusion acts on P, the only global input
    output    Z = P (I + W(G)) + transformer(x, waves(x), P, exp(-t L) P, heat(x) - x, sampling; G)
    basis     Q = orthonormalise(M^{1/2} [1, Z])

Nothing here solves an eigenproblem: `W` is a perceptron. With `channel_every`, some layers attend
between channels instead of points, `V (K^T Q)`.

The network looks at a batch of clouds through diffusion, and is trained against it:

    A = I - L / bound                            the `variable` smoother of the 12 nearest
                                                 neighbours, dim = 2; spectrum in [0, 1]
    exp(-t L) x = sum_j c_j(t) T_j(2 A - I) x    Chebyshev, t in units of 1 / bound

The time of a heat kernel is set by its trace, `tr exp(-t L) = level` ("about `level` eigenvectors
survive"), which needs no units and no dimension. The trace comes from the Chebyshev moments of a
few random sign vectors.

Shapes: `points (b, n, 3)` -> `Z (b, n, K - 1)`, the constant being known; `b` clouds stacked in one
smoother, `n` points of the largest, to which the others are padded by rows without mass; `c`
columns, `D` degree; `x (b, n, c)`, coefficients `(b, D + 1)`.
"""

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor, nn

from ..cloud.farthest import farthest_points
from ..eigen import orthonormalise, smoother_filter
from ..eigen.problem import smoother_step, terms
from ..layers import split_heads
from ..neighbors.graph import Graph, build_graph
from ..neighbors.layout import Segments, canonical_pose
from ..smoothers import Smoother, variable_smoother
from ..smoothers.variable import NETWORK
from .transformer import Transformer, TransformerConfig, stacked

NEIGHBOURS = 12
SURFACE = 2.0  # the dimension that the network takes every cloud to have
_GRID = 40  # times on the logarithmic grid on which traces are inverted


@torch.no_grad()
def diffusion(source: Tensor | Graph) -> Smoother:
    """The smoother of a batch of clouds `(b, n, 3)` or of its graph, float32."""
    if not isinstance(source, Graph):
        sizes = (source.shape[1],) * len(source)
        source = build_graph(source.float().flatten(0, 1), NEIGHBOURS, clouds=sizes)
    return variable_smoother(source.truncate(NEIGHBOURS), None, SURFACE, NETWORK)


def masses(smoother: Smoother) -> Tensor:
    """The mass `(b, n)`; sums to 1 on every cloud, 0 where it is padded."""
    return smoother.each.padded(smoother.mass)


def filter_degrees(smoother: Smoother) -> tuple[int, ...]:
    """Enough for the longest time in use on the points of every cloud: `s` steps need about
    `sqrt(s)` products.
    """
    return tuple(math.ceil(1.3 * math.sqrt(n)) + 4 for n in smoother.clouds)


def trace_moments(smoother: Smoother, probes: int = 24) -> Tensor:
    """Estimates `(b, D + 1)` of `tr T_j(2 A - I)`, with half the products by `T_i T_j = (T_{i+j} +
    T_{i-j})/2`.
    """
    each, most, n = smoother.each, max(filter_degrees(smoother)), smoother.each.counts
    drawn = torch.randint(0, 2, (each.most, probes), generator=torch.Generator().manual_seed(0))
    signs = (2 * drawn - 1).to(smoother.mass).expand(len(each), -1, -1)

    def mean(x: Tensor, y: Tensor) -> Tensor:
        return (x * y).sum((1, 2)) / probes if each.equal else each.sum((x * y).sum(1)) / probes

    series = terms(
        smoother_step(smoother), signs if each.equal else each.stacked(signs), most // 2 + 1
    )
    before, now = next(series), next(series)
    first = mean(before, now)
    out = [n.to(first), first]
    for following in series:
        out += [2 * mean(now, now) - n, 2 * mean(now, following) - first]
        now = following
    return torch.stack(out[: most + 1], -1)


def trace_times(levels: tuple[float, ...], moments: Tensor, degrees: tuple[int, ...]) -> Tensor:
    """Times `(b, len(levels))` at which the heat trace falls to each level, in units of `1 /
    bound`.

    `degrees` are those up to which the moments of every cloud count.
    """
    own = degrees[:1] if len(set(degrees)) == 1 else degrees
    grid = torch.stack(  # (1 or b, G)
        [torch.logspace(-0.5, math.log10(d**2 / 5), _GRID, device=moments.device) for d in own]
    )
    kernel = heat_coefficients(grid, own)  # (1 or b, G, D + 1)
    trace = (kernel @ moments[..., None])[..., 0]
    trace = trace.clamp_min(0.5).cummin(-1).values.log()  # (b, G)
    target = torch.tensor(levels, device=moments.device).log()
    above = (trace[:, None] > target[:, None]).sum(-1).clamp(1, _GRID - 1)  # (b, levels)
    low, high = trace.gather(1, above - 1), trace.gather(1, above)
    share = ((low - target) / (low - high).clamp_min(1e-6)).clamp(0, 1)
    log = grid.log().expand(len(trace), -1)
    return torch.lerp(log.gather(1, above - 1), log.gather(1, above), share).exp()


def heat_coefficients(times: Tensor, degrees: tuple[int, ...]) -> Tensor:
    """Chebyshev coefficients `(..., D + 1)` of `exp(-t (1 - y) / 2)` on `[-1, 1]`, `t` in units of
    `1 / bound`.

    `degrees` of the first axis are those beyond which the coefficients of a cloud are 0, D the
    largest.
    """
    count = max(degrees) + 1
    nodes = 4 * count
    theta = torch.arange(nodes, device=times.device, dtype=torch.float64) + 0.5
    theta = theta * (math.pi / nodes)
    value = torch.exp(-0.5 * times.double()[..., None] * (1 - theta.cos()))  # (..., nodes)
    order = torch.arange(count, device=times.device)
    transform = torch.cos(order[:, None] * theta) * (2 / nodes)
    transform[0] /= 2
    found = (value @ transform.mT).float()
    if len(set(degrees)) == 1:
        return found
    own = torch.tensor(degrees, device=times.device).view(-1, *[1] * times.ndim)
    return found.masked_fill(order > own, 0)


_LEVELS = (14.0, 4.0, 30.0, 8.0)  # of the finer seeds, of the cubics, and of the two Gram matrices
_POWERS = [c for degree in range(1, 5) for c in combinations_with_replacement(range(3), degree)]
LANDMARKS = 15
_CUBIC = 19  # monomials up to degree 3
SEEDS = len(_POWERS) + LANDMARKS  # 49
GUARDS = 49
NO_MASS = 1e-30  # below the root of any mass
INPUTS = 3 + 12 + 2 * SEEDS + 6 + 1 + 5
GLOBALS = SEEDS * (SEEDS + 1)  # two upper triangles


@dataclass(frozen=True)
class SpectralConfig:
    """Sizes of a `SpectralNetwork`; `shape` is the width of the perceptron of `G`, `channel_every`
    = 2 makes every second layer attend between channels (0: none); `polish` smooths the output by
    the heat kernel with that trace.
    """

    outputs: int = 50
    width: int = 384
    layers: int = 8
    heads: int = 6
    feedforward: int = 768
    point: tuple[int, ...] = (384,)
    shape: int = 512
    channel_every: int = 2
    polish: float = 0.0

    def transformer(self) -> TransformerConfig:
        same = {
            name: getattr(self, name)
            for name in ("point", "width", "layers", "heads", "feedforward")
        }
        return TransformerConfig(INPUTS, outputs=self.outputs - 1, **same)


class ChannelAttention(nn.Module):
    """Attention between channels: values times the signed cosines of key and query channels over
    the whole cloud.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key = nn.Linear(width, 2 * width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(heads, 1, 1))

    def memory(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        both = self.query_key(x)
        if mask is not None:  # (b, 1, 1, n): padding has no part in any channel
            both = both.masked_fill(~mask[:, 0].mT, 0)
        query, key = (
            nn.functional.normalize(split_heads(part, self.heads), dim=-2)
            for part in both.chunk(2, -1)
        )
        gram = (key.mT @ query) * self.scale.to(key.dtype)
        return gram, gram

    def attend(
        self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None = None
    ) -> Tensor:
        mixed = split_heads(self.value(x), self.heads) @ memory[0]
        return self.out(mixed.transpose(-3, -2).flatten(-2))


class SpectralTransformer(Transformer):
    """The library's transformer, with some layers attending between channels."""

    kind = "spectral"

    def __init__(self, config: SpectralConfig) -> None:
        sizes = config.transformer()
        super().__init__(sizes)
        if config.channel_every:
            for i in range(config.channel_every - 1, config.layers, config.channel_every):
                self.layers[i].attention = ChannelAttention(sizes.width, sizes.heads)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def finish(self, x: Tensor) -> Tensor:
        """Norm and head in float32: rounding to bfloat16 would add white noise, which no
        eigenvector has.
        """
        with torch.autocast(x.device.type, enabled=False):
            return super().finish(x.float())


@dataclass
class Inputs:
    """What the network sees of a batch, and how it got there."""

    features: Tensor  # (b, n, INPUTS)
    seeds: Tensor  # P (b, n, 49)
    gram: Tensor  # (b, GLOBALS)
    moments: Tensor  # (b, D + 1)
    pose: Tensor  # (b, 4, 3): x -> [x, 1] pose


class SpectralNetwork(nn.Module):
    """Points and their smoother to the columns `Z`; `inputs` and `columns` are its two halves."""

    def __init__(self, config: SpectralConfig | None = None) -> None:
        super().__init__()
        self.config = config or SpectralConfig()
        self.transformer = SpectralTransformer(self.config)
        width = self.config.shape
        self.shape = nn.Sequential(*stacked((GLOBALS, width, width)))
        self.mixing = nn.Linear(width, SEEDS * (self.config.outputs - 1))
        self.bias = nn.Linear(width, self.config.width)
        for last in (self.mixing, self.bias):
            nn.init.normal_(last.weight, std=1e-3)
            nn.init.zeros_(last.bias)

    def forward(self, points: Tensor, smoother: Smoother, pose: Tensor | None = None) -> Tensor:
        seen = inputs(points, smoother, pose)
        return self.finish(*self.raw(seen), seen, smoother)

    def raw(self, seen: Inputs, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What is learned: the transformer's columns `(b, n, K - 1)` and the mixing `(b, 49, K -
        1)`.

        `mask (b, n)` is True at the points of clouds that are padded to one size.
        """
        shape = self.shape(seen.gram)
        mixing = self.mixing(shape).float().unflatten(-1, (SEEDS, -1))
        return self.transformer(seen.features, mask, self.bias(shape)[:, None]), mixing

    def finish(self, raw: Tensor, mixing: Tensor, seen: Inputs, smoother: Smoother) -> Tensor:
        """`Z (b, n, K - 1)` in float32: the mixed seeds added, the whole polished."""
        z = raw.float() + seen.seeds @ (mixing + torch.eye(*mixing.shape[1:], device=mixing.device))
        return self.polish(z, smoother, seen.moments) if self.config.polish else z

    def polish(self, z: Tensor, smoother: Smoother, moments: Tensor) -> Tensor:
        """Remove what no low eigenvector has: a short diffusion of the functions `Z`."""
        degrees, root = filter_degrees(smoother), masses(smoother).sqrt()[..., None]
        time = trace_times((self.config.polish,), moments, degrees)[:, 0]
        third = tuple(max(4, degree // 3) for degree in degrees)
        smooth = _Filter.apply(root * z, smoother, heat_coefficients(time, third))
        return smooth / root.clamp_min(NO_MASS)


class _Filter(torch.autograd.Function):
    """A symmetric filter is its own transpose, so the backward pass is the forward one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, smoother: Smoother, coefficients: Tensor) -> Tensor:
        ctx.smoother, ctx.coefficients = smoother, coefficients
        return smoother_filter(smoother, x, coefficients)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        return smoother_filter(ctx.smoother, gradient, ctx.coefficients), None, None


def place(points: Tensor, pose: Tensor) -> Tensor:
    return points @ pose[:, :3] + pose[:, 3:]


@torch.no_grad()
def inputs(points: Tensor, smoother: Smoother, pose: Tensor | None = None) -> Inputs:
    """The features of `points (b, n, 3)`; `pose` replaces the canonical one."""
    mass, degrees = masses(smoother), filter_degrees(smoother)
    pose = canonical_pose(points, mass) if pose is None else pose
    x, mass = place(points, pose), mass[..., None]
    root = mass.sqrt()
    within = root.clamp_min(NO_MASS)  # padding has no mass, and functions are 0 there
    monomials = root * torch.stack(
        [torch.stack([x[..., axis] for axis in c]).prod(0) for c in _POWERS], -1
    )
    seeds = torch.cat([monomials, landmarks(x, LANDMARKS, smoother.each)], -1)
    moments = trace_moments(smoother)
    fine, cubic, *longer = trace_times(_LEVELS, moments, degrees).unbind(-1)
    kernels = heat_coefficients(torch.stack([cubic, fine], -1), degrees)
    diffused = smoother_filter(smoother, seeds, kernels)  # (b, 2, n, 49)
    basis = orthonormal(
        torch.cat([diffused[:, 0, :, :_CUBIC], diffused[:, 1, :, _CUBIC:]], -1), mass[..., 0]
    )
    # Not from the same products: orthonormalising magnifies what little is left of the last seeds,
    # and their errors.
    kernels = heat_coefficients(torch.stack(longer, -1), degrees)
    images = smoother_filter(smoother, root * basis, kernels) / within[:, None]
    # Degree is a poor order: on a long body the second harmonic of its axis comes before its width
    # does.
    energy = (mass * basis * images.sum(1)).sum(1)
    order = energy.argsort(-1, descending=True)[:, None]
    basis = basis.gather(-1, order.expand_as(basis))
    after, late = images.gather(-1, order[:, None].expand_as(images)).unbind(1)
    weighted = mass * basis
    row, column = torch.triu_indices(basis.shape[-1], basis.shape[-1], device=x.device)
    gram = torch.cat([(weighted.mT @ image)[:, row, column] for image in (after, late)], -1)
    drift = torch.cat([diffused[:, i, :, :3] / within - x for i in (1, 0)], -1)
    variance = (mass * (x - (mass * x).sum(1, keepdim=True)) ** 2).sum(1)
    scale = torch.stack([fine, cubic], -1).div(smoother.each.counts[:, None]).log()
    whole = torch.cat([scale, variance], -1)[:, None].expand(-1, x.shape[1], -1)
    # How coarse the sampling is here: the log of the local time against its mean.
    time, each = 1 / smoother.known_degree, smoother.each  # 1 - A_ii is a step over the local time
    coarse = each.padded((time / each.spread(each.mean(time))).log())[..., None].clamp(-3, 3)
    waves = [(3 * x).sin(), (3 * x).cos(), (6 * x).sin(), (6 * x).cos()]
    parts = [x, *waves, basis.clamp(-6, 6), late.clamp(-6, 6), 4 * drift, coarse, whole]
    return Inputs(torch.cat(parts, -1), basis, 4 * gram, moments, pose)


def landmarks(x: Tensor, count: int, each: Segments) -> Tensor:
    """Indicators `(b, n, count)` of far-apart points, the first farthest from the centre: the tips
    of limbs, mostly.
    """
    real = None if each.equal else nn.functional.pad(each.real, (1, 0), value=True)
    both = torch.cat([torch.zeros_like(x[:, :1]), x], 1)  # from the centre on
    order = farthest_points(both, count + 1, start=0, valid=real)[:, 1:] - 1
    order = order.clamp_min(0)  # the centre again where fewer places than that are distinct
    return torch.zeros(*x.shape[:2], count, device=x.device).scatter_(1, order[:, None], 1.0)


@torch.no_grad()
def guards(points: Tensor, smoother: Smoother, seen: Inputs) -> Tensor:
    """Further landmarks, diffused like the seeds, `(b, n, GUARDS)`: not for the network, but for
    the span in which its columns are rotated."""
    x = place(points, seen.pose)
    degrees = filter_degrees(smoother)
    time = trace_times(_LEVELS[:1], seen.moments, degrees)[:, 0]
    chosen = landmarks(x, LANDMARKS + GUARDS, smoother.each)[..., LANDMARKS:]
    smooth = smoother_filter(smoother, chosen, heat_coefficients(time, degrees))
    root = masses(smoother).sqrt()[..., None].clamp_min(NO_MASS)
    return smooth / smooth.norm(dim=1, keepdim=True).clamp_min(1e-30) / root


def orthonormal(x: Tensor, mass: Tensor) -> Tensor:
    """Columns of `M^{-1/2} x`, orthonormal to each other and to the constant, in this order
    (Cholesky, float64).

    A ridge keeps columns that diffusion has merged small instead of turning them into noise.
    """
    root = mass.double().sqrt()[..., None]
    root = root / root.norm(dim=1, keepdim=True)  # exactly: the last columns are magnified most
    columns = x.double()
    columns = columns - root * (root * columns).sum(1, keepdim=True)
    q, _ = orthonormalise(columns, check=False, passes=1, ridge=1e-9)
    return (q / root.clamp_min(NO_MASS)).float()
