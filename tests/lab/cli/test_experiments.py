"""The commands that run the paper's experiments, smaller."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from eigenprobe.cli.session import Session
from eigenprobe.errors import InputError
from eigenprobe_lab.cli.experiments import overfit
from tests.cli.conftest import Run, done


def test_reproduce_overfit(run: Run) -> None:
    words = "reproduce overfit meshes/a.obj cloud.xyz --way ours -k 6 --n 200 --steps 3"
    words += " --resamplings 1 --size 300 --out r"
    out = done(run(words), "r/overfit.json", "r/overfit.md")
    assert "skipped cloud.xyz" in out and "| a " in out


def test_reproduce_the_papers_way(run: Run) -> None:
    small = "--way paper --quick --steps 3"
    out = done(
        run(f"reproduce overfit meshes/a.obj -k 6 --n 150 --size 100 {small} --out p"),
        "p/overfit.json",
    )
    assert "random weights" in out and "closed form of its probes" in out and "| published |" in out
    rows = json.loads(Path("p/overfit.json").read_text())["rows"]
    assert rows[0]["method"] == "the paper's way" and {
        "discrepancy_fixed",
        "discrepancy_rayleigh",
    } <= set(rows[0])
    out = done(
        run(f"reproduce generalisation meshes/a.obj -k 6 --n 100 {small} --out q"),
        "q/generalisation.json",
    )
    assert "1 shapes | none" in re.sub(" +", " ", out) and "k<=5" in out and "random weights" in out
    assert "the paper, MPZ14" not in out  # published rows do not stand above another shape
    out = done(
        run(f"reproduce overfit meshes/a.obj -k 6 --n 150 --size 100 --released {small} --out s"),
        "s/overfit.json",
    )
    assert "the released way" in out


def test_published_scores_stand_beside_features_of_the_paper_only(run: Run) -> None:
    words = "reproduce images features.npz --ks 2 --way paper --quick --steps 3"
    out = done(run(f"{words} --out r"), "r/images.json")
    assert "(the paper's way)" in out and "Isomap" in out and "0.790" not in out
    code, _, err = run(f"{words} --dataset stl10 --out r2")
    assert code == 2 and "--dataset and --extractor go together" in err
    code, _, err = run(f"{words} --dataset stl10 --extractor clip --out r3")
    assert code == 2 and "features of clip have 512 columns" in err
    rng = np.random.default_rng(0)
    labels = np.arange(160) % 4
    x = (rng.normal(size=(160, 512)) + 3 * np.eye(512)[labels]).astype(np.float32)
    np.savez("clip.npz", features=x, labels=labels)
    words = words.replace("features.npz", "clip.npz --dataset stl10 --extractor clip")
    out = done(run(f"{words} --out r4"), "r4/images.json")
    assert "0.691 / 0.525" in out


def test_reproduce_generalisation(run: Run) -> None:
    words = "reproduce generalisation meshes/a.obj cloud.xyz --way ours -k 10 --n 250"
    words += " --volumes 1 --out g"
    out = done(run(words), "g/generalisation.json", "g/generalisation.csv")
    assert "closed form" in out and "polynomials" in out and "skipped cloud.xyz" in out


def test_reproduce_toy1d(run: Run) -> None:
    out = done(
        run("reproduce toy1d --steps 20 --probes 2000 --out t"), "t/toy1d.png", "t/toy1d.json"
    )
    assert "expected loss" in out and "hybrid loss, sampled probes" in out
    rows = json.loads(Path("t/toy1d.json").read_text())["rows"]
    assert [len([name for name in row if name.startswith("cos")]) for row in rows] == [4, 4]


def test_reproduce_images(run: Run) -> None:
    words = "reproduce images features.npz --way ours --runs 1 --n 120 --ks 2"
    words += " --methods pca direct --out i"
    out = done(run(words), "i/images.json", "i/images.md")
    assert "PCA" in out and "NMI" in out
    np.savez("bare.npz", features=np.ones((5, 2)))
    code, _, err = run("reproduce images bare.npz --way ours --methods pca")
    assert code == 2 and "bare.npz has none" in err


@pytest.mark.long
def test_an_interrupted_experiment_goes_on_from_its_checkpoint(run: Run) -> None:
    words = ["reproduce", "toy1d", "--probes", "2000", "--steps", "200000", "--out", "t"]
    checkpoint = Path("t/checkpoints/paper/last.ckpt")

    def started() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "eigenprobe", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    process, patience = started(), time.monotonic() + 120
    while not checkpoint.is_file() and time.monotonic() < patience:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (
        process.returncode == 130
        and f"{checkpoint} is saved, the same command goes on from it" in err
    )
    process = started()
    assert process.stdout is not None
    said = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert (found := re.fullmatch(rf"going on from step (\d+) in {checkpoint}\n", said)) and int(
        found[1]
    ) > 0
    code, _, err = run("reproduce toy1d --probes 2000 --steps 10 --out t")
    assert code == 2 and "belongs to another run" in err and "--resume never" in err
    assert "going on" not in done(
        run("reproduce toy1d --probes 2000 --steps 10 --out t --resume never"), "t/toy1d.json"
    )


def test_experiments_keep_a_checkpoint_for_each_network(run: Run) -> None:
    words = "reproduce overfit meshes/a.obj --way both -k 6 --n 150 --size 100 --quick --steps 3"
    words += " --out p"
    assert "p/checkpoints " in done(run(words))
    assert all(Path(f"p/checkpoints/a/{way}/last.ckpt").is_file() for way in ("paper", "ours"))
    assert "going on from step 3 in p/checkpoints/a/paper/last.ckpt" in done(run(words))
    words = "reproduce images features.npz --ks 2 --way paper --quick --steps 3 --out r"
    done(run(words), "r/checkpoints/last.ckpt")


def test_table_of_a_bumpy_sphere(tmp_path: Path) -> None:
    trimesh = pytest.importorskip("trimesh")
    mesh = trimesh.creation.icosphere(3)
    x = np.asarray(mesh.vertices)
    mesh.vertices = x * (1 + 0.3 * np.sin(2 * x[:, :1]) + 0.2 * x[:, 1:2] ** 2) * [1, 0.8, 0.6]
    mesh.export(tmp_path / "bumpy.obj")
    (tmp_path / "broken.obj").write_text("not a mesh")
    session = Session(device_name="cpu", out=tmp_path / "out", quiet=True)
    settings = {"way": "ours", "k": 12, "n": 500, "resamplings": 2, "size": 400, "steps": 120}
    overfit(sorted(tmp_path.glob("*.obj")), **settings, session=session)
    result = json.loads((tmp_path / "out" / "overfit.json").read_text())
    assert set(result["facts"]["failed"]) == {"broken.obj"} and len(result["rows"]) == 3
    rows = {row["method"]: row for row in result["rows"]}
    assert list(rows) == ["feedforward", "ritz", "closed form"]
    assert rows["ritz"]["cosine_10"] >= 0.95 * rows["closed form"]["cosine_10"]
    assert rows["ritz"]["discrepancy"] < 0.1 and rows["ritz"]["gap"] < 0.05
    text = (tmp_path / "out" / "overfit.md").read_text()
    assert "bumpy" in text and "**mean, all**" in text.split("\n\n")[0].splitlines()[-1]
    with pytest.raises(InputError, match="none of the shapes"):
        overfit([tmp_path / "broken.obj"], way="ours", k=12, session=session)
