"""Tests of `cli.clouds`: the command that decomposes shapes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from tests.cli.conftest import Run, done
from tests.viz.conftest import payload


def test_decompose_compared(run: Run) -> None:
    out = done(run("decompose bunny.obj -k 12 --compare oracle --out b"), "b/report.html")
    shapes = payload(Path("b/report.html").read_text())["shapes"]
    mesh = ep.geometry.load("bunny.obj")
    exact = ep.evaluation.compare(
        ep.Basis.load("b/basis.safetensors"), ep.geometry.oracle(mesh.vertices, mesh.faces, 12)
    ).cosine(10)
    assert shapes[1]["name"] == "oracle" and len(shapes[1]["cosines"]) == 12
    assert f"agrees with oracle to |cosine| {exact:.3f} up to k=10" in out
    assert (
        abs(json.loads(Path("b/summary.json").read_text())["|cosine| with oracle up to 10"] - exact)
        < 1e-6
    )
    done(run("decompose cloud.xyz -k 5 --compare b/basis.safetensors --out c"), "c/report.html")
    for words, told in (
        (
            "decompose cloud.xyz --compare oracle",
            "--compare oracle needs all vertices of a mesh, cloud.xyz",
        ),
        (
            "decompose bunny.obj --compare orcle",
            "--compare takes direct, network, pretrained, oracle or a file",
        ),
    ):
        code, _, err = run(f"{words} --out d")
        assert code == 2 and told in err and not Path("d/basis.safetensors").exists()


def test_decompose(run: Run) -> None:
    out = done(
        run("decompose bunny.obj -k 12 --out b"),
        "b/basis.safetensors",
        "b/summary.json",
        "b/report.html",
    )
    assert re.search(r"decomposed bunny.obj: 780 points, 12 vectors, direct, in \d+\.\d s", out)
    basis = ep.Basis.load("b/basis.safetensors")
    assert basis.vectors.shape == (780, 12)
    facts = json.loads(Path("b/summary.json").read_text())
    assert np.allclose(facts["eigenvalues"], basis.eigenvalues)
    assert facts["points"] == 780 and facts["method"] == "direct"
    assert f"in {facts['seconds']:.1f} s" in out and 0 < facts["seconds_solving"] < facts["seconds"]
    assert "<script" in Path("b/report.html").read_text()


def test_decompose_with_another_operator(run: Run) -> None:
    np.save("line.npy", np.stack([np.linspace(0, 1, 400), np.zeros(400)], 1))
    done(
        run("decompose line.npy -k 3 --boundary dirichlet --no-report --out string"),
        "string/basis.safetensors",
    )
    found = ep.Basis.load("string/basis.safetensors")
    np.testing.assert_allclose(found.eigenvalues, (np.pi * np.arange(1, 4)) ** 2, rtol=1e-3)
    done(
        run("decompose line.npy -k 3 --eigenvalues mean --no-report --out mean"),
        "mean/basis.safetensors",
    )
    assert ep.Basis.load("mean/basis.safetensors").info["estimator"] == "mean"
    code, _, told = run("decompose line.npy -k 3 --method network --boundary dirichlet")
    assert code == 2 and "'direct' only" in told
    np.save("well.npy", np.full(400, 5.0))
    shifted = (
        "decompose line.npy -k 3 --boundary dirichlet --potential well.npy --no-report --out well"
    )
    done(run(shifted), "well/basis.safetensors")
    np.testing.assert_allclose(
        ep.Basis.load("well/basis.safetensors").eigenvalues, found.eigenvalues + 5, rtol=1e-5
    )
    code, _, told = run("decompose bunny.obj -k 3 --potential well.npy")
    assert code == 2 and "potential of shape (n,) with n=780, got (400,)" in told


def test_decompose_in_another_metric(run: Run) -> None:
    line = "decompose bunny.obj -k 4 --no-report --out"
    points = ep.Basis.load(done_basis(run, f"{line} plain")).points
    asked = {
        "--metric scale-invariant": {"metric": "scale-invariant"},
        "--anisotropy 2": {"anisotropy": 2.0},
    }
    asked |= {"--alpha 0.5": {"measure": 0.5}}
    for number, (words, options) in enumerate(asked.items()):
        found = ep.Basis.load(done_basis(run, f"{line} {number} {words}"))
        expected = ep.decompose(points, k=4, **options)
        np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-6, atol=1e-9)


def done_basis(run: Run, line: str) -> str:
    folder = line.partition("--out ")[2].split()[0]
    done(run(line), f"{folder}/basis.safetensors")
    return f"{folder}/basis.safetensors"


def test_decompose_samples_volumes_and_quiet(run: Run) -> None:
    assert run("decompose cloud.xyz -k 5 --samples 200 --no-report --quiet --out s")[:2] == (0, "")
    assert ep.Basis.load("s/basis.safetensors").n == 200
    assert not Path("s/report.html").exists()
    done(
        run("decompose solid.off --volume --samples 1000 -k 6 --no-report --out v"),
        "v/basis.safetensors",
    )
    assert ep.Basis.load("v/basis.safetensors").info["dimension"] == pytest.approx(3, abs=0.3)
    done(
        run("decompose bunny.obj --samples 1000 -k 5 --no-report --out more"),
        "more/basis.safetensors",
    )
    assert ep.Basis.load("more/basis.safetensors").n == 1000


def test_the_seed_settles_everything(run: Run) -> None:
    for out in ("one", "two"):
        done(run(f"decompose bunny.obj -k 6 --samples 300 --seed 3 --no-report --out {out}"))
    assert (
        Path("one/basis.safetensors").read_bytes()[-1000:]
        == Path("two/basis.safetensors").read_bytes()[-1000:]
    )


def test_decompose_by_graph_smoother_and_probes(run: Run) -> None:
    words = "decompose bunny.obj -k 5 --samples 200 --no-report --force"
    summary = Path("d/summary.json")
    done(
        run(
            f"{words} --smoother row --neighbours 10 --bandwidth 0.4 --dimension 2 "
            "--eigenvalues worst --out d"
        )
    )
    facts = json.loads(summary.read_text())
    assert facts["smoother"] == "row" and facts["dimension"] == 2 and facts["estimator"] == "worst"
    done(run(f"{words} --probes wavelet --out d"))
    facts = json.loads(summary.read_text())
    assert facts["probes"] == "wavelet" and len(facts["eigenvalues"]) == 5
    done(run(f"{words} --metric cosine --out d"))
    np.save("f.npy", np.random.default_rng(0).normal(size=(200, 6)))
    done(run(f"{words} --probes f.npy --out d"))
    assert json.loads(summary.read_text())["probes"] == 6
    code, _, err = run(f"{words} --probes cold --out d")
    assert code == 2 and "one of heat, resolvent" in err and err.count("\n") == 1


def test_decompose_a_folder(run: Run) -> None:
    """One basis per file; a bad one is named, costs the exit code, and nothing else."""
    shutil.copytree("meshes", "others/meshes")
    words = "decompose meshes others/meshes/a.obj cloud.xyz -k 5 --no-report --out d"
    files = [
        f"d/{name}/basis.safetensors"
        for name in ("meshes/a", "meshes/b", "others/meshes/a", "cloud")
    ]
    out = done(run(words), *files)
    assert (
        "decomposed 4 of 4 shapes" in out
        and "decomposed cloud.xyz: 390 points, 5 vectors, direct" in out
    )
    shutil.copy("broken.obj", "meshes/c.obj")
    code, out, err = run("decompose meshes -k 5 --no-report --out e")
    (line,) = [line for line in err.splitlines() if "warning:" not in line]
    assert code == 2 and "1 of 3 shapes were not decomposed" in line
    assert "skipped meshes/c.obj" in out and "decomposed 2 of 3 shapes" in out
    assert all(Path(f"e/{name}/basis.safetensors").is_file() for name in "ab")


def test_a_basis_knows_where_its_points_come_from(run: Run) -> None:
    vertices = ep.geometry.load("bunny.obj").vertices
    done(run("encode bunny.obj -k 5 --samples 200 --out e"))
    done(run("decompose bunny.obj -k 5 --samples 200 --no-report --out d"))
    for path, source in (
        ("e/bunny.safetensors", "bunny.obj"),
        ("d/basis.safetensors", "bunny.obj"),
    ):
        basis = ep.Basis.load(path)
        assert basis.rows is not None and np.array_equal(basis.points, vertices[basis.rows])
        assert basis.info["source"] == source
    done(run("decompose bunny.obj -k 5 --no-report --out whole"))
    whole = ep.Basis.load("whole/basis.safetensors")
    assert whole.rows is None and np.array_equal(whole.faces, ep.geometry.load("bunny.obj").faces)


def test_columns_and_dimensions_are_told(run: Run) -> None:
    points = np.random.default_rng(0).normal(size=(60, 4))
    np.savetxt("table.csv", points, delimiter=",", header="p,q,r,s", comments="")
    assert "60 points in 4 dimensions, 3 vectors" in done(
        run("decompose table.csv -k 3 --no-report --out a")
    )
    out = done(run("decompose table.csv --columns p,q -k 3 --no-report --out b"))
    assert "60 points in 2 dimensions, 3 vectors" in out
    assert np.allclose(ep.Basis.load("b/basis.safetensors").points, points[:, :2])


def test_a_folder_with_everything_in_it(run: Run) -> None:
    """Sub-folders, twins by suffix, other alphabets; hidden files are left alone, and a second run
    goes on.
    """
    shutil.copytree("meshes", "all/below/meshes")
    shutil.copy("meshes/a.obj", "all/größe ☃.obj")
    vertices = ep.geometry.load("meshes/b.obj").vertices
    np.savetxt("all/twin.xyz", vertices)
    np.save("all/twin.npy", 2 * vertices)
    places = ["größe ☃", "twin.xyz", "twin.npy", "below/meshes/a", "below/meshes/b"]
    for words, ending in (
        ("decompose all -k 5 --no-report", "/basis.safetensors"),
        ("encode all -k 5", ".safetensors"),
    ):
        files = {place: Path("o", words.split()[0], f"{place}{ending}") for place in places}
        words += f" --out o/{words.split()[0]}"
        Path("all/0.obj").write_text("v one two three\n")
        Path("all/._a.obj").write_text("what another system leaves behind")
        out = run(words)[1]
        assert "5 of 6 shapes" in out and "skipped all/0.obj" in out and "._a" not in out
        small, large = (ep.Basis.load(files[f"twin.{kind}"]).eigenvalues for kind in ("xyz", "npy"))
        np.testing.assert_allclose(small[1:], 4 * large[1:], rtol=1e-3)
        files["below/meshes/b"].unlink()
        before = {place: path.stat().st_mtime_ns for place, path in files.items() if path.exists()}
        Path("all/0.obj").unlink()
        Path("all/._a.obj").unlink()
        assert "1 of 5 shapes, 4 already there" in done(run(words))
        assert files["below/meshes/b"].exists()
        assert before == {place: files[place].stat().st_mtime_ns for place in before}
        assert "5 of 5 shapes" in done(run(f"{words} --force"))
        assert all(files[place].stat().st_mtime_ns > when for place, when in before.items())


def test_what_exists_is_not_solved_again(run: Run) -> None:
    done(run("decompose meshes -k 5 --no-report --out d"))
    alone = ep.decompose("meshes/a.obj", k=5)
    found = ep.Basis.load("d/a/basis.safetensors")
    np.testing.assert_allclose(found.eigenvalues, alone.eigenvalues, atol=1e-6)
    before = Path("d/a/basis.safetensors").stat().st_mtime_ns
    assert "0 of 2 shapes, 2 already there" in done(
        run("decompose meshes -k 5 --no-report --out d")
    )
    assert Path("d/a/basis.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "command", ["decompose meshes -k 5 --no-report", "encode meshes -k 5 --samples 300"]
)
def test_what_has_changed_since_is_solved_again(command: str, run: Run) -> None:
    def found() -> dict[str, np.ndarray]:
        return {
            str(path): ep.Basis.load(path).eigenvalues
            for path in sorted(Path("f").rglob("*.safetensors"))
        }

    done(run(f"{command} --out f"))
    before = found()
    shape = ep.geometry.load("meshes/b.obj")
    ep.geometry.save(ep.geometry.Shape(2 * shape.vertices, shape.faces), "meshes/b.obj")
    assert "1 of 2 shapes, 1 already there" in done(run(f"{command} --out f"))
    after = found()
    assert [*after] == [*before] and len(after) == 2
    for name, values in after.items():
        changed = "b" in Path(name).parts or Path(name).stem == "b"
        np.testing.assert_allclose(values[1:], before[name][1:] / (4 if changed else 1), rtol=1e-3)


def test_shapes_at_addresses(run: Run) -> None:
    fsspec = pytest.importorskip("fsspec")
    for name in ("clouds/a.obj", "clouds/below/b.obj"):
        with fsspec.open(f"memory://{name}", "wb") as file:
            file.write(Path(f"meshes/{Path(name).name}").read_bytes())
    done(
        run("decompose memory://clouds -k 5 --no-report --out d"),
        "d/a/basis.safetensors",
        "d/below/b/basis.safetensors",
    )
    here = Path.cwd() / "meshes"
    done(run(f"decompose file://{here}/a.obj -k 5 --no-report --out one"), "one/basis.safetensors")
    done(
        run("encode memory://clouds/a.obj memory://clouds/below/b.obj -k 5 --out e"),
        "e/a.safetensors",
        "e/below/b.safetensors",
    )
    found, expected = (ep.Basis.load(f"{name}/basis.safetensors") for name in ("d/a", "one"))
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-9)
    with fsspec.open(
        "memory://others/a.obj", "wb"
    ) as file:  # another file of this name, and then a newer one
        file.write(Path("meshes/b.obj").read_bytes())
    for original in ("b.obj", "a.obj"):
        found = ep.decompose("memory://others/a.obj", 4)
        np.testing.assert_allclose(
            found.eigenvalues, ep.decompose(f"meshes/{original}", 4).eigenvalues, rtol=1e-9
        )
        with fsspec.open("memory://others/a.obj", "wb") as file:
            file.write(Path("meshes/a.obj").read_bytes())
    for words in (
        "decompose memory://nothing/a.obj",
        "decompose memory://nothing",
        "encode gone://x/a.obj",
    ):
        code, _, err = run(f"{words} -k 5 --out n")
        assert code == 2 and re.fullmatch(r"eigenprobe: .*(nothing|gone).*\n", err), err


def test_warnings_and_rows_reach_every_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import trimesh

    from eigenprobe.cli import main

    monkeypatch.chdir(tmp_path)
    trimesh.creation.capsule().export("capsule.ply")
    x = np.random.default_rng(0).normal(size=(200, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.savetxt("a.xyz", np.concatenate([x, x + [9, 0, 0]]))
    x[5] = np.nan
    np.column_stack([x, np.full(200, 0.5)]).astype("<f4").tofile("frame.bin")
    words = ["decompose", "capsule.ply", "frame.bin", "a.xyz", "-k", "4", "--no-report"]
    assert main([*words, "--out", "o"]) == 0
    err = capsys.readouterr().err
    assert "drawn on its faces" in err and "warning: a.xyz: the cloud has 2 separate parts" in err
    for name, told in (("capsule", "drawn on its faces"), ("frame", "1 pixels without a return")):
        summary = json.loads(Path(f"o/{name}/summary.json").read_text())
        assert told in summary["warnings"][0]
        assert told in Path("o/summary.csv").read_text()
        assert told in Path("o/index.html").read_text()
    found = ep.Basis.load("o/frame/basis.safetensors").rows
    assert found is not None and found.tolist() == np.delete(np.arange(200), 5).tolist()
    assert main(["decompose", "capsule.ply", "-k", "4", "--samples", "0", "--no-report"]) == 0
    assert ep.Basis.load("out/capsule/basis.safetensors").n == 2050
