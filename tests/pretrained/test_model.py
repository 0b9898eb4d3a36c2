"""The pretrained model: encoding, files, errors; on a tiny random network, and on the shipped
weights where present.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eigenprobe as ep
from benchmarks.meshing import creature
from eigenprobe.basis import Basis
from eigenprobe.errors import InputError
from eigenprobe.host.weights import drawing
from eigenprobe.networks.spectral import SpectralNetwork
from eigenprobe.pretrained.model import SpectralModel
from eigenprobe_lab.evaluation import pretrained as generalisation
from eigenprobe_lab.shapes import ProceduralShapes
from tests.clouds import even
from tests.pretrained.conftest import ball, shipped


def check(basis: Basis, n: int, k: int) -> None:
    v, mass = np.asarray(basis.vectors, dtype=float), np.asarray(basis.mass, dtype=float)
    assert v.shape == (n, k) and mass.sum() == pytest.approx(1, abs=1e-5) and (mass > 0).all()
    np.testing.assert_allclose(v.T @ (mass[:, None] * v), np.eye(k), atol=1e-4)
    np.testing.assert_allclose(v[:, 0], 1, atol=1e-5)
    values = np.asarray(basis.eigenvalues)
    assert values[0] == 0 and (np.diff(values) >= 0).all()


@pytest.mark.parametrize("smoother", ["adaptive", "symmetric", "heat"])
@pytest.mark.parametrize(("ritz", "refine"), [(False, 0), (True, 0), (True, 2)])
def test_a_basis_is_a_basis(model, clouds, smoother, ritz, refine):
    check(
        model.encode(clouds[0].numpy(), k=10, ritz=ritz, refine=refine, smoother=smoother), 300, 10
    )


def test_ritz_and_sweeps_come_closer_to_the_closed_form(model, clouds):
    """As subspaces, up to the widest of the gaps that follow the sixth to the tenth eigenvalue."""
    after_three = []
    for cloud in clouds:
        points = cloud.numpy()
        best = ep.decompose(points, k=11, resolution="all")
        ratio = best.eigenvalues[6:11] / best.eigenvalues[5:10]
        count = 6 + int(np.argmax(ratio))
        found = [
            ep.evaluation.compare(
                model.encode(points, k=10, ritz=ritz, refine=refine), best
            ).subspace(count)
            for ritz, refine in ((False, 0), (True, 0), (True, 3), (True, 10), (True, 80))
        ]
        assert (np.diff(found) > -1e-6).all() and found[-1] > 0.999
        after_three.append(found[2])
    # A cloud of 300 points with hundreds of short-cuts starts farther away than the others.
    assert np.median(after_three) > 0.99


def test_kind_precision_and_device_come_back(model, clouds):
    single, double = clouds[0].numpy(), clouds[0].double().numpy()
    assert model.encode(single, k=4).vectors.dtype == np.float32
    assert model.encode(double, k=4).vectors.dtype == np.float64
    cloud = clouds[0]
    basis = model.encode(cloud, k=4)
    assert isinstance(basis.vectors, torch.Tensor) and basis.points is cloud


def test_batches_lists_and_folders(model, clouds, tmp_path):
    one = [model.encode(c, k=5).eigenvalues for c in clouds]
    batch = model.encode(clouds, k=5)
    mixed = model.encode([clouds[0], clouds[1][:200], clouds[2]], k=5)
    assert [b.n for b in mixed] == [300, 200, 300]
    for a, b in zip(one, batch, strict=True):
        torch.testing.assert_close(a, b.eigenvalues, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(mixed[2].eigenvalues, one[2], rtol=1e-3, atol=1e-3)
    together = model.encode(clouds, k=5, smoother="heat")
    alone = model.encode(clouds[1], k=5, smoother="heat")
    torch.testing.assert_close(together[1].eigenvalues, alone.eigenvalues, rtol=1e-2, atol=1e-2)
    for i, cloud in enumerate(clouds):
        np.save(tmp_path / f"{i}.npy", cloud.numpy())
    assert [b.n for b in model.encode(tmp_path, k=5)] == [300, 300, 300]


def test_units_offsets_and_rotations(model, clouds, rng):
    points = clouds[0].double().numpy()
    basis = model.encode(points, k=8)
    moved = model.encode(1000 * points + 1e5, k=8)
    np.testing.assert_allclose(moved.eigenvalues * 1e6, basis.eigenvalues, rtol=2e-2, atol=1e-3)
    rotation, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turned = model.encode(points @ rotation, k=8)
    np.testing.assert_allclose(turned.eigenvalues, basis.eigenvalues, rtol=5e-2, atol=1e-3)


def test_large_clouds_are_extended_from_a_subset(model):
    i = np.arange(8400) + 0.5
    height, angle = 1 - 2 * i / 8400, np.pi * (1 + 5**0.5) * i
    ring = np.sqrt(1 - height**2)
    points = np.stack([ring * np.cos(angle), 0.8 * ring * np.sin(angle), 1.3 * height], 1)
    basis = model.encode(points, k=6)
    check(basis, 8400, 6)
    best = ep.decompose(points, k=6)
    assert ep.evaluation.compare(basis, best).subspace(4) > 0.95
    np.testing.assert_allclose(basis(points[:10]), basis.vectors[:10], atol=1e-4)


def test_coinciding_points_share(model, clouds):
    points = clouds[0].numpy()
    doubled = np.concatenate([points, points[:7]])
    with pytest.warns(ep.EigenprobeWarning, match="coincide"):
        basis = model.encode(doubled, k=5)
    check(basis, 307, 5)
    np.testing.assert_allclose(basis.vectors[:7], basis.vectors[300:], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("smoother", "symmetric"), ("metric", "cosine"), ("neighbours", 20), ("bandwidth", 0.1),
        ("dimension", 3), ("seed", 1), ("tol", 1e-9),
    ],
)  # fmt: skip
def test_what_a_model_cannot_honour_is_refused(folder, clouds, name, value):
    with pytest.raises(InputError, match=f"'pretrained' does not take {name}"):
        ep.decompose(clouds[0], k=4, method="pretrained", model=folder, **{name: value})


def test_a_batch_merges_copies_warns_of_parts_and_knows_solids(model, clouds, rng):
    plain = clouds[0].numpy()
    copies = plain.copy()
    copies[:7] = copies[7:14]
    apart = np.where(plain[:, :1] > np.median(plain[:, 0]), plain + 4, plain)
    solid = even(ball, 300, rng).astype(
        np.float32
    )  # of 300 random points every second ball has a surface only
    with pytest.warns(ep.EigenprobeWarning) as seen:
        bases = model.encode(np.stack([plain, copies, apart, solid]), k=6, smoother="heat")
    messages = " ".join(str(w.message) for w in seen)
    assert "7 of 300 points coincide" in messages and "2 separate parts" in messages
    for basis in bases:
        check(basis, 300, 6)
    np.testing.assert_allclose(bases[1].vectors[:7], bases[1].vectors[7:14], atol=1e-6)
    assert bases[2].info["components"] == 2 and bases[2].eigenvalues[1] < 1e-2
    assert [b.info["dimension"] for b in bases] == [2, 2, 2, 3]
    alone = model.encode(plain, k=6, smoother="heat")
    np.testing.assert_allclose(bases[0].eigenvalues, alone.eigenvalues, rtol=1e-3, atol=1e-3)


def test_round_trip_and_card(model, folder, tmp_path):
    model.save_pretrained(tmp_path / "copy")
    again = SpectralModel.from_pretrained(tmp_path / "copy")
    assert (
        generalisation.fingerprint(again) == generalisation.fingerprint(model)
        and again.facts == model.facts
    )
    card = (tmp_path / "copy" / "README.md").read_text()
    assert 'from_pretrained("copy")' in card and "up to 16 vectors" in card
    assert model.k == 16 and model.to("cpu") is model


def test_bad_clouds_are_told_apart(model, clouds, tmp_path):
    points = clouds[0].numpy()
    with pytest.raises(InputError, match=r"\(n, 3\), got \(300, 2\)"):
        model.encode(points[:, :2])
    with pytest.raises(InputError, match="at most 16 vectors"):
        model.encode(points, k=17)
    with pytest.raises(InputError, match="at least 64 points"):
        model.encode(points[:40], k=10)
    with pytest.raises(InputError, match="finite"):
        model.encode(np.where(np.arange(300)[:, None] == 7, np.nan, points), k=5)
    with pytest.raises(InputError, match="empty"):
        model.encode([])
    with pytest.raises(InputError, match="no shapes"):
        model.encode(tmp_path)
    with pytest.raises(InputError, match="ritz=True"):
        model.encode(points, k=5, ritz=False, refine=1)
    with pytest.raises(InputError, match="smoother"):
        model.encode(points, k=5, smoother="cotangent")


@shipped
def test_the_shipped_model_agrees_with_the_closed_form():
    model = SpectralModel.from_pretrained("surface")
    cloud = ProceduralShapes(seed=99, families=["quadruped"]).draw(1, 1000)[0].numpy()
    best = ep.decompose(cloud, k=50, neighbours="plain")  # as the model has them
    basis = ep.decompose(cloud, k=50, method="pretrained")
    check(basis, 1000, 50)
    assert ep.evaluation.compare(basis, best).subspace(10) > 0.98
    assert model.k == 50 and model.facts["recipe"]["shapes"]["folder"] in (None, "None")


@shipped
def test_the_shipped_weights_know_more_than_their_inputs_and_than_random_ones(tmp_path):
    """Ritz and sweeps forgive any start, so what was learned is seen feed-forward: |cosine| with
    the oracle of three made animals, 10 to 12 points above the inputs alone and above the same
    network with random weights.
    """
    vertices, faces = creature(30)
    turn = 1.2 * vertices[:, 1]
    cos, sin, (x, y, z) = np.cos(turn), np.sin(turn), vertices.T
    twisted = np.stack([cos * x - sin * z, y, sin * x + cos * z], 1)
    for name, points in {
        "plain": vertices,
        "long": vertices * [1, 1.4, 0.8],
        "twisted": twisted,
    }.items():
        ep.geometry.save(ep.geometry.Shape(points, faces), tmp_path / f"{name}.obj")
    model = SpectralModel.from_pretrained("surface")
    with drawing(0):
        untrained = SpectralModel(SpectralNetwork(model.network.config))
    cosines = {}
    for name, each in {"trained": model, "random": untrained}.items():
        rows = generalisation.run(
            [tmp_path], generalisation.Comparison(each, 1000, 50, volumes=0)
        ).means()
        alone = {row["start"]: row for row in rows if row["stage"] == "feed-forward"}
        cosines[name], cosines["inputs"] = alone["network"], alone["its inputs alone"]
    for level, margin in (("k<=10", 0.08), ("k<=20", 0.08), ("k<=50", 0.04)):
        for other in ("random", "inputs"):
            assert cosines["trained"][level] > cosines[other][level] + margin, (level, other)


@shipped
@pytest.mark.parametrize("smoother", ["adaptive", "heat", "symmetric"])
def test_clouds_whose_parts_differ_by_many_decades_are_finite(smoother):
    model = SpectralModel.from_pretrained("surface")
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(200, 3))
        x[:20] *= 1e3
        basis = model.encode(x, k=10, smoother=smoother)
        assert np.isfinite(basis.vectors).all() and np.allclose(
            basis.normalized.T @ basis.normalized, np.eye(10), atol=1e-6
        )
        if smoother != "symmetric":
            expected = ep.decompose(x, k=10).eigenvalues
            assert np.allclose(
                basis.eigenvalues[:4], expected[:4], rtol=0.02, atol=1e-3 * expected[3]
            )
