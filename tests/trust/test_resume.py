"""A checkpoint continues the run it came from, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenprobe.errors import InputError
from eigenprobe.host.files import locked_folder
from eigenprobe.training import fit_network


def ring(stretch: float = 1.0) -> torch.Tensor:
    angle = torch.linspace(0, 6.2832, 81)[:-1, None]
    return torch.cat([stretch * angle.cos(), angle.sin()], 1)


def test_another_shape_or_size_or_recipe_is_refused(tmp_path: Path) -> None:
    assert fit_network(ring(), 3, steps=2, folder=tmp_path).info["steps"] == 2
    for cloud, k, options, what in [
        (ring(1.5), 3, {}, "points"),
        (ring(), 4, {}, "k"),
        (ring(), 3, {"smoother": "symmetric"}, "recipe"),
        (ring(), 3, {"seed": 7}, "recipe"),
    ]:
        with pytest.raises(InputError, match=rf"last.ckpt belongs to another run \({what} differ"):
            fit_network(cloud, k, steps=4, folder=tmp_path, **options)
    assert (
        fit_network(ring(), 3, steps=4, folder=tmp_path).info["steps"] == 4
    )  # the same run, longer


def test_a_damaged_checkpoint_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "last.ckpt").write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"cannot read .*last.ckpt"):
        fit_network(ring(), 3, steps=2, folder=tmp_path)


def test_a_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    with locked_folder(tmp_path), pytest.raises(InputError, match="another run is writing"):
        fit_network(ring(), 3, steps=2, folder=tmp_path)
    fit_network(ring(), 3, steps=2, folder=tmp_path)
    assert not list(tmp_path.glob(".*"))


def test_every_shape_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from eigenprobe.cli import main

    monkeypatch.chdir(tmp_path)
    recipe = (
        Path(__file__).resolve().parents[2] / "src" / "eigenprobe_lab" / "recipes" / "overfit.yaml"
    )
    for name, stretch in (("round", 1.0), ("long", 2.0)):
        np.savetxt(f"{name}.xyz", ring(stretch).numpy())
        words = [
            "train",
            str(recipe),
            f"shape={name}.xyz",
            "k=3",
            "steps=2",
            "preset=cpu",
            "--device",
            "cpu",
        ]
        assert main(words) == 0
    assert {path.name for path in Path("out").iterdir()} == {"overfit-round", "overfit-long"}
