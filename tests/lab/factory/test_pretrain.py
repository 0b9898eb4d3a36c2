"""Pretraining: the loss against brute force, the stream, the optimiser, and a run that is cut in two and exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from eigenprobe.eigen.chebyshev import smoother_filter
from eigenprobe.errors import InputError
from eigenprobe.host.weights import drawing
from eigenprobe.networks.diffusion import diffusion, masses, trace_moments
from eigenprobe.networks.spectral import SpectralConfig, inputs
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe.training.recipes import load_recipe, run_recipe
from eigenprobe_lab.factory.pretrain import PretrainModule, PretrainSettings, Schedule, pretrain
from eigenprobe_lab.factory.reconstruction import (
    closed_form,
    covariance_coefficients,
    energies,
    measure,
    misalignment,
    relative_errors,
)
from eigenprobe_lab.factory.timed import MuonAdamW
from eigenprobe_lab.shapes.stream import ShapeSettings, ShapeStream

RECIPE = Path(__file__).resolve().parents[3] / "src" / "eigenprobe_lab" / "recipes" / "pretrain.yaml"
NETWORK = SpectralConfig(outputs=8, width=16, layers=2, heads=2, feedforward=16, point=(8,), shape=16)
SHAPES = ShapeSettings(
    tokens=600, typical=150, sizes=(100, 240), chunk=6, chunks=2, renew=4, families=["biped", "blob"]
)
TINY = PretrainSettings(
    network=NETWORK,
    shapes=SHAPES,
    schedule=Schedule(minutes=60, steps=6, rate=0.003),
    precision="32",
    validate_every=3,
    held_out=4,
    checkpoint_every=2,
    average=0.9,
    levels=(20.0, 6.0),
)
LEVELS = (20.0, 6.0)


@pytest.fixture(scope="module")
def clouds() -> torch.Tensor:
    return ShapeStream(SHAPES).at(0)[:3, :100]


def test_energies_are_those_of_the_dense_covariance(clouds, generator):
    smoother = diffusion(clouds, dense=True)
    moments = trace_moments(smoother)
    z = torch.randn(3, 100, 5, generator=generator, requires_grad=True)
    energy, basis = energies(z, smoother, moments, LEVELS)
    covariance = smoother_filter(
        smoother, torch.eye(100).expand(3, 100, 100), covariance_coefficients(smoother, moments, LEVELS)
    )
    root = masses(smoother).sqrt()[..., None]

    def brute(z: torch.Tensor) -> torch.Tensor:
        q, _ = torch.linalg.qr(torch.cat([root, root * z], -1).double())
        return q.mT @ covariance.double() @ q

    exact = brute(z)
    torch.testing.assert_close(energy.diagonal(dim1=1, dim2=2), exact.diagonal(dim1=1, dim2=2), atol=1e-5, rtol=1e-4)
    weights = torch.arange(1.0, 7.0, dtype=torch.float64)
    (found,) = torch.autograd.grad((relative_errors(energy) * weights).sum(), z, retain_graph=True)
    (expected,) = torch.autograd.grad(((1 - exact.diagonal(dim1=1, dim2=2).cumsum(-1)) * weights).sum(), z)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-2)
    assert torch.isfinite(torch.autograd.grad(misalignment(energy, basis).sum(), z)[0]).all()


def test_the_closed_form_has_the_least_loss_and_no_misalignment(clouds, generator):
    smoother = diffusion(clouds, dense=True)
    moments = trace_moments(smoother)
    found = closed_form(smoother, 8, sweeps=20)
    vectors = found.q
    assert (found.gaps.diff(dim=-1) > -1e-6).all()
    best = vectors[..., 1:] / masses(smoother).sqrt()[..., None]
    energy, basis = energies(best.float(), smoother, moments, LEVELS)
    assert misalignment(energy, basis).max() < 0.02
    for _ in range(3):
        other = best + 0.3 * torch.randn(best.shape, generator=generator)
        worse, turned = energies(other.float(), smoother, moments, LEVELS)
        assert (relative_errors(worse) > relative_errors(energy) - 1e-6).all()
        assert misalignment(worse, turned).mean() > misalignment(energy, basis).mean()


def test_misalignment_turns_columns_within_their_span_only(clouds, generator):
    smoother = diffusion(clouds, dense=True)
    z = torch.randn(3, 100, 5, generator=generator)
    energy, basis = energies(z, smoother, trace_moments(smoother), LEVELS)
    basis = basis.detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(misalignment(energy, basis).sum(), basis)
    outside = gradient - basis @ (basis.mT @ gradient)
    assert outside.norm() < 1e-9 * max(1.0, float(gradient.norm()))


def test_measures_are_one_for_the_closed_form(clouds):
    smoother = diffusion(clouds, dense=True)
    vectors = closed_form(smoother, 8, sweeps=20).q
    z = (vectors[..., 1:] / masses(smoother).sqrt()[..., None]).float()
    found = measure(z, smoother, vectors.float(), trace_moments(smoother), LEVELS)
    assert found["cosine5"] > 0.999 and found["matched5"] > 0.999 and found["subspace5"] > 0.999
    assert abs(found["excess"]) < 1e-3 and found["ritz_cosine5"] > 0.999


def linear(generator) -> tuple[torch.nn.Linear, torch.Tensor, torch.Tensor]:
    with drawing(0):
        layer = torch.nn.Linear(6, 4)
    x = torch.randn(64, 6, generator=generator)
    return layer, x, x @ torch.randn(6, 4, generator=generator)


def test_muon_fits_a_linear_map(generator):
    layer, x, target = linear(generator)
    optimiser = MuonAdamW([layer.weight], [layer.bias], rate=0.1, adam_rate=0.02, weight_decay=0.0)
    losses = []
    for i in range(150):
        for group, rate in zip(optimiser.param_groups, (0.1, 0.02)):
            group["lr"] = rate * (1 - i / 150)
        before = layer.weight.detach().clone()
        loss = (layer(x) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
        if i == 0:  # a step is nearly a partial isometry: every direction moves by about the rate
            moved = torch.linalg.svdvals(layer.weight.detach() - before) / 0.1
            assert moved.min() > 0.5 and moved.max() < 1.3
    assert losses[-1] < 1e-2 * losses[0]


def test_a_step_without_a_finite_gradient_changes_nothing(generator):
    layer, x, target = linear(generator)
    optimiser = MuonAdamW([layer.weight], [layer.bias], weight_decay=0.1)

    def step(value: float | None) -> None:
        optimiser.zero_grad()
        (layer(x) - target).square().mean().backward()
        if value is not None:
            layer.weight.grad.fill_(value)
            layer.bias.grad.fill_(value)
        optimiser.found_inf = torch.tensor(float(value is not None))
        optimiser.step()

    def everything() -> list[torch.Tensor]:
        moments = [v for p in (layer.weight, layer.bias) for _, v in sorted(optimiser.state[p].items())]
        return [t.detach().clone() for t in (layer.weight, layer.bias, *moments)]

    weight = layer.weight.detach().clone()
    step(torch.nan)  # the first step of all
    assert torch.equal(layer.weight.detach(), weight)
    for _ in range(3):
        step(None)
    before = everything()
    assert len(before) > 4 and all(bool(t.isfinite().all()) for t in before)
    for value in (torch.nan, torch.inf):
        step(value)
        assert all(torch.equal(a, b) for a, b in zip(before, everything(), strict=True))
    step(None)
    assert not torch.equal(before[0], layer.weight.detach())


def test_every_process_sees_clouds_of_its_own(monkeypatch):
    first, second = (ShapeStream(SHAPES).to("cpu", rank) for rank in (0, 1))
    a, b = first.at(0), second.at(0)
    assert a.shape != b.shape or not torch.equal(a, b)
    assert not torch.equal(first._chunk(0)[0], second._chunk(0)[0])
    torch.testing.assert_close(second.to("cpu", 0).at(0), a)
    # The module asks for those of its process.
    module, stream = PretrainModule(TINY), ShapeStream(SHAPES)
    monkeypatch.setattr(module, "_trainer", SimpleNamespace(global_rank=1, global_step=1))
    module.training_step(stream, 0)
    assert stream.rank == 1


def test_the_stream_depends_on_the_step_alone():
    whole, resumed = ShapeStream(SHAPES), ShapeStream(SHAPES)
    batches = [whole.at(step) for step in range(9)]
    sizes = {b.shape[1] for b in batches}
    assert len(sizes) > 2 and min(sizes) >= 100 and max(sizes) <= 240
    assert all(abs(b.shape[0] * b.shape[1] - 600) < 240 for b in batches)
    torch.testing.assert_close(resumed.at(8), batches[8])
    with pytest.raises(InputError, match="smallest <= typical"):
        ShapeStream(replace(SHAPES, typical=5000))


def test_real_meshes_can_be_mixed_in(tmp_path):
    t = torch.linspace(0, 6.28, 40)
    ring = torch.stack([t.cos(), t.sin(), 0 * t], -1).repeat(10, 1)
    ring = ring + 0.2 * torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "ring.npy", ring.numpy())
    batch = ShapeStream(replace(SHAPES, folder=tmp_path, share=0.5)).at(0)
    assert torch.isfinite(batch).all() and batch.shape[0] >= 2


def test_a_run_in_two_pieces_is_exported(tmp_path):
    state = torch.get_rng_state()
    first = pretrain(replace(TINY, schedule=replace(TINY.schedule, piece=1e-6)), tmp_path, device="cpu")
    facts = json.loads((tmp_path / "history.json").read_text())
    assert facts["history"][-1]["step"] == 1
    model = pretrain(TINY, tmp_path, device="cpu")
    facts = json.loads((tmp_path / "history.json").read_text())
    assert model == first and facts["history"][-1]["step"] == 6 and facts["recipe"]["network"]["outputs"] == 8
    assert [row["step"] for row in facts["history"]] == sorted(row["step"] for row in facts["history"])
    assert {"cosine5", "ritz_cosine5", "matched5", "subspace5", "excess"} <= set(facts["history"][-1])
    basis = SpectralModel.from_pretrained(model).encode(ShapeStream(SHAPES).at(0)[0], k=6)
    assert basis.k == 6
    assert torch.equal(torch.get_rng_state(), state)  # nothing seeds or draws from the global generator


def test_pieces_give_the_weights_of_one_run(tmp_path):
    steps = replace(TINY, validate_every=0, schedule=replace(TINY.schedule, warmup=0.0, cooldown=1e-9))
    whole = SpectralModel.from_pretrained(pretrain(steps, tmp_path / "whole", device="cpu"))
    piece = replace(steps, schedule=replace(steps.schedule, piece=1e-6))
    for _ in range(TINY.schedule.steps):
        model = pretrain(piece, tmp_path / "pieces", device="cpu")
    for a, b in zip(whole.network.parameters(), SpectralModel.from_pretrained(model).network.parameters()):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=1e-2)
    saved = torch.load(tmp_path / "pieces" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == TINY.schedule.steps


def test_the_recipe_is_checked_and_runs(tmp_path):
    settings = load_recipe(RECIPE, ["steps=3", "network.width=96", "shapes.sizes=[300,800]", "shapes.typical=400"])
    assert settings.schedule.steps == 3 and settings.network.width == 96 and settings.shapes.sizes == (300, 800)
    mistakes = {
        "netwrok={}": "no key 'netwrok'",
        "network.depth=3": r"no key 'network\.depth'",
        "network.width=wide": r"expected a whole number for network\.width, got 'wide'",
        "network=3": "expected keys and values for network, got 3",
        "schedule.optimiser=sgd": r"expected one of muon, adamw for schedule\.optimiser, got 'sgd'",
        "shapes.sizes=[1,2,3]": r"expected a list of 2 for shapes\.sizes",
        "rate=true": r"expected a number for schedule\.rate, got True",
        "kind=magic": "kind is one of .*pretrain.*, got 'magic'",
    }
    for change, message in mistakes.items():
        with pytest.raises(InputError, match=message) as error:
            load_recipe(RECIPE, [change])
        assert "\n" not in str(error.value)
    changes = [
        "steps=2", "network.outputs=6", "network.width=16", "network.layers=1", "network.heads=1",
        "network.feedforward=16", "network.point=[8]", "network.shape=16", "shapes.tokens=300", "shapes.typical=120",
        "shapes.sizes=[100,160]", "shapes.chunk=4", "validate_every=0", "held_out=4", "precision='32'",
    ]  # fmt: skip
    model = run_recipe(RECIPE, tmp_path, changes, device="cpu")
    assert (model / "config.json").is_file()


def test_schedule_warms_up_and_cools_down():
    schedule = Schedule(warmup=0.1, cooldown=0.5)
    rates = [schedule.factor(p) for p in (0.0, 0.05, 0.2, 0.5, 0.75, 1.0)]
    assert rates[0] < rates[1] < rates[2] == rates[3] == 1.0 and rates[4] == pytest.approx(0.5) and rates[5] == 0.0


def test_the_loss_falls(generator):
    settings = replace(TINY, schedule=replace(TINY.schedule, steps=100), alignment=0.0)
    module = PretrainModule(settings)
    optimiser = module.configure_optimizers()
    clouds = ShapeStream(SHAPES).at(0)
    smoother = diffusion(clouds)
    seen = inputs(clouds, smoother)
    losses = []
    for _ in range(25):
        energy, _ = energies(module.columns(seen, smoother), smoother, seen.moments, LEVELS)
        loss = relative_errors(energy).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert min(losses[-5:]) < losses[0]


def test_muon_is_torchs_muon(generator):
    mine, theirs = (torch.nn.Parameter(torch.randn(4, 9, generator=generator)) for _ in range(2))
    other, others = (torch.nn.Parameter(p.detach().clone()) for p in (mine, theirs))
    stacked = MuonAdamW([mine, theirs], [torch.nn.Parameter(torch.zeros(1))], rate=0.02, weight_decay=0.1)
    single = torch.optim.Muon([other, others], lr=0.02, weight_decay=0.1)
    for _ in range(4):
        for p, q in ((mine, other), (theirs, others)):
            p.grad = torch.randn(4, 9, generator=generator)
            q.grad = p.grad.clone()
        stacked.step()
        single.step()
    for p, q in ((mine, other), (theirs, others)):
        torch.testing.assert_close(p, q, atol=2e-3, rtol=0)  # torch orthogonalises in bfloat16
