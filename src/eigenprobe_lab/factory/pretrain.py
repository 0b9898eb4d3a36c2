r"""Pretraining: one network for all shapes, on procedural clouds, by reconstruction and a term that
orders columns.

    Q = orthonormalise(M^{1/2} [1, Z]),   C = mean over levels of exp(-t L) / tr exp(-t L),   tr
    exp(-t L) = level e_k = 1 - sum_{i <= k} q_i^T C q_i,   loss = mean_k e_k + alignment *
    misalignment

The schedule runs on training *time* (or steps, whichever is further), kept in the checkpoint with
weights, averages and optimiser, so a run may be cut into pieces of a few minutes on machines of
different speed. `b` clouds, `n` points.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from eigenprobe.errors import InputError
from eigenprobe.host.files import write_json
from eigenprobe.host.weights import drawing
from eigenprobe.neighbors.layout import canonical_pose
from eigenprobe.networks.spectral import (
    Inputs,
    SpectralConfig,
    SpectralNetwork,
    diffusion,
    inputs,
    masses,
)
from eigenprobe.probes import Objective
from eigenprobe.smoothers import Smoother
from eigenprobe.training import RunSettings

from ..shapes.stream import ShapeSettings, ShapeStream
from .blocks import Blocks
from .recipes import recipe_kind
from .reconstruction import energies, held_out_clouds, measure, misalignment, relative_errors
from .schedule import TimedSettings
from .timed import TimedModule, train_timed


@dataclass(frozen=True)
class PretrainSettings(TimedSettings):
    """Everything about a run. Graphs, diffusion and inputs cost more than a step of the network,
    hence the blocks.
    """

    network: SpectralConfig = field(default_factory=SpectralConfig)
    shapes: ShapeSettings = field(default_factory=ShapeSettings)
    turn: float = 0.15  # about how far clouds are turned from the canonical pose, radians
    turned: float = 0.7  # share of them
    levels: tuple[float, ...] = (100.0, 30.0, 10.0, 4.0)
    alignment: float = 0.1
    precision: Literal["32", "bf16"] = "bf16"
    validate_every: int = 500
    held_out: int = 48


class PretrainModule(TimedModule):
    """`SpectralModule` on streams of clouds: graph, diffusion and covariance are made on the device
    at every step.
    """

    settings: PretrainSettings

    def __init__(self, settings: PretrainSettings) -> None:
        with drawing(settings.seed):
            network = SpectralNetwork(settings.network)
        objective = Objective(relative=True)
        super().__init__(network, settings, objective=objective, precision=settings.precision)
        self._held: list[tuple[Tensor, Tensor]] = []
        self._blocks = Blocks[tuple[Smoother, Inputs]](settings.block, settings.passes)

    @torch.no_grad()
    def prepare(self, clouds: Tensor, generator: torch.Generator) -> tuple[Smoother, Inputs]:
        """All that does not depend on the weights."""
        smoother = diffusion(clouds)
        pose = perturbed_pose(clouds, smoother, self.settings, generator)
        return smoother, inputs(clouds, smoother, pose)

    def clouds_loss(self, smoother: Smoother, seen: Inputs) -> Tensor:
        """Loss of every cloud `(b,)`."""
        z = self.columns(seen, smoother)
        energy, basis = energies(z, smoother, seen.moments, self.settings.levels)
        errors = relative_errors(energy)
        loss = self.objective.reduce(errors, torch.ones_like(errors[:, 0]))
        return (
            loss + self.settings.alignment * misalignment(energy, basis)
            if self.settings.alignment
            else loss
        )

    def prepared(self, stream: ShapeStream, step: int) -> tuple[Smoother, Inputs]:
        """The batch of a step."""

        def prepare(block: int, place: int) -> tuple[Smoother, Inputs]:
            index = block * self.settings.block + place
            generator = torch.Generator(self.device).manual_seed(
                self.seed * 1_000_003 + index * 64 + stream.rank
            )
            return self.prepare(stream.at(index), generator)

        return self._blocks.at(step, prepare)

    def columns(self, seen: Inputs, smoother: Smoother) -> Tensor:
        network = cast(SpectralNetwork, self.network)
        with torch.autocast(
            seen.features.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"
        ):
            raw, mixing = network.raw(seen)
        return network.finish(raw, mixing, seen, smoother)

    def training_step(self, item: Any, batch_idx: int) -> Tensor:
        stream = cast(ShapeStream, item).to(self.device, self.rank)
        loss = self.clouds_loss(*self.prepared(stream, self.batches_seen)).mean()
        return self.count_batch({"loss": loss}, remembered=False)

    def validation_step(self, item: Any, batch_idx: int) -> None:
        facts = self.evaluate()
        self.remember(**facts)
        for name, value in facts.items():
            self.log(
                f"val/{name}",
                value,
                prog_bar=name in ("cosine20", "excess"),
                batch_size=1,
                sync_dist=True,
            )

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Feed-forward and Ritz measures on held-out procedural shapes against their closed
        form.
        """
        if not self._held:
            stream = self.settings.shapes
            self._held = held_out_clouds(
                self.settings.held_out, stream.typical, self.device, stream.families
            )
        out: list[dict[str, float]] = []
        for clouds, vectors in self._held:
            smoother = diffusion(clouds)
            seen = inputs(clouds, smoother)
            z = self.columns(seen, smoother)
            out.append(measure(z, smoother, vectors, seen.moments, self.settings.levels))
        return {name: sum(o[name] for o in out) / len(out) for name in out[0]}


def perturbed_pose(
    clouds: Tensor, smoother: Smoother, how: PretrainSettings, generator: torch.Generator
) -> Tensor:
    """The canonical pose, turned a little about a random axis."""
    pose = canonical_pose(clouds, masses(smoother))
    b, device = len(clouds), clouds.device
    size = how.turn * torch.randn(b, 3, generator=generator, device=device)
    size = size * (torch.rand(b, 1, generator=generator, device=device) < how.turned)
    cross = torch.linalg.cross(torch.eye(3, device=device)[None], size[:, None])
    return pose @ torch.linalg.matrix_exp(cross)


@recipe_kind("pretrain", PretrainSettings, ("minutes", "piece", "steps", "optimiser", "rate"))
def pretrain(
    settings: PretrainSettings, folder: Path, how: RunSettings | None = None, **changes: Any
) -> Path:
    """Run (or go on with) pretraining in `folder`; returns the folder of the exported model.

    Each call trains until the budget, the piece or the steps are used up, and exports the averaged
    weights so far. `changes` are fields of `RunSettings`: device, resume, flags.
    """
    from eigenprobe.pretrained.model import SpectralModel

    if settings.schedule.minutes <= 0 or settings.schedule.steps <= 0:
        raise InputError(f"expected a positive budget, got {settings.schedule}")
    module, every, source = (
        PretrainModule(settings),
        settings.validate_every,
        {"network": str(settings.network)},
    )
    changes |= {"folder": folder, "validate_every": every, "source": source}
    trainer, facts = train_timed(
        module, ShapeStream(settings.shapes), how, [0] if every else (), **changes
    )
    module.remember(**module.evaluate())
    facts |= {"history": module.history, "skipped": module.report_skipped()}
    if trainer.is_global_zero:
        network = cast(SpectralNetwork, module.network).cpu().float()
        SpectralModel(network, facts).save_pretrained(folder / "model")
        write_json(folder / "history.json", facts)
    return folder / "model"
