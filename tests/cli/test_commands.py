"""Every command on small data: what it writes where, and what it says of a bad file, a bad folder, an interruption."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import eigenprobe as ep
from eigenprobe.cli import main
from tests.playground import TINY_IMAGES, TINY_PRETRAIN, stock, write_vision_model
from tests.viz.conftest import payload

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def supplies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("supplies")
    stock(folder)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], supplies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``main`` in a folder with the playground's files: (exit code, standard output, standard error)."""
    shutil.copytree(supplies / "work", tmp_path / "work", symlinks=True)
    monkeypatch.chdir(tmp_path / "work")
    Path("blocked").write_text("a file where a folder is wanted")
    Path("broken.obj").write_text("v one two three\nf 1 2 3\n")
    Path("empty.npz").write_bytes(b"")
    Path("broken.npz").write_bytes(b"PK\x03\x04 not really")
    Path("nan.xyz").write_text("0 0 0\n1 nan 0\n0 1 0\n0 0 1\n")
    Path("gaps.csv").write_text("a,b\n1,2\n3,\n4,5\n,1\n")
    np.savez("two.npz", one=np.eye(4), two=np.eye(4))
    (Path.cwd() / "nothing").mkdir()

    def call(words: str) -> tuple[int, str, str]:
        code = main(words.split())
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def leftovers(folder: Path) -> list[Path]:
    """Files of an interrupted or failed write."""
    return [path for path in folder.rglob(".*") if path.is_file() and ".parts" not in str(path)]


def done(result: tuple[int, str, str], *files: str) -> str:
    code, out, err = result
    assert code == 0, err
    for file in files:
        assert Path(file).is_file() and Path(file).stat().st_size > 0, file
        assert file in out or Path(file).parent.name in out, f"{file} is not in the summary:\n{out}"
    assert not leftovers(Path.cwd())
    return out


def test_decompose_compared(run: Run) -> None:
    out = done(run("decompose bunny.obj -k 12 --compare oracle --out b"), "b/report.html")
    shapes = payload(Path("b/report.html").read_text())["shapes"]
    mesh = ep.geometry.load("bunny.obj")
    exact = ep.evaluation.compare(
        ep.Basis.load("b/basis.safetensors"), ep.geometry.oracle(mesh.vertices, mesh.faces, 12)
    ).cosine(10)
    assert shapes[1]["name"] == "oracle" and len(shapes[1]["cosines"]) == 12
    assert f"agrees with oracle to |cosine| {exact:.3f} up to k=10" in out
    assert abs(json.loads(Path("b/summary.json").read_text())["|cosine| with oracle up to 10"] - exact) < 1e-6
    done(run("decompose cloud.xyz -k 5 --compare b/basis.safetensors --out c"), "c/report.html")
    for words, told in (
        ("decompose cloud.xyz --compare oracle", "--compare oracle needs a mesh with all of its vertices, cloud.xyz"),
        ("decompose bunny.obj --compare orcle", "--compare takes direct, network, pretrained, oracle or a file"),
    ):
        code, _, err = run(f"{words} --out d")
        assert code == 2 and told in err and not Path("d/basis.safetensors").exists()


def test_decompose(run: Run) -> None:
    out = done(run("decompose bunny.obj -k 12 --out b"), "b/basis.safetensors", "b/summary.json", "b/report.html")
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
    done(run("decompose line.npy -k 3 --boundary dirichlet --no-report --out string"), "string/basis.safetensors")
    found = ep.Basis.load("string/basis.safetensors")
    np.testing.assert_allclose(found.eigenvalues, (np.pi * np.arange(1, 4)) ** 2, rtol=1e-3)
    done(run("decompose line.npy -k 3 --eigenvalues mean --no-report --out mean"), "mean/basis.safetensors")
    assert ep.Basis.load("mean/basis.safetensors").info["estimator"] == "mean"
    code, _, told = run("decompose line.npy -k 3 --method network --boundary dirichlet")
    assert code == 2 and "'direct' only" in told
    np.save("well.npy", np.full(400, 5.0))
    shifted = "decompose line.npy -k 3 --boundary dirichlet --potential well.npy --no-report --out well"
    done(run(shifted), "well/basis.safetensors")
    np.testing.assert_allclose(ep.Basis.load("well/basis.safetensors").eigenvalues, found.eigenvalues + 5, rtol=1e-5)
    code, _, told = run("decompose bunny.obj -k 3 --potential well.npy")
    assert code == 2 and "potential of shape (n,) with n=780, got (400,)" in told


def test_decompose_in_another_metric(run: Run) -> None:
    line = "decompose bunny.obj -k 4 --no-report --out"
    points = ep.Basis.load(done_basis(run, f"{line} plain")).points
    asked = {"--metric scale-invariant": {"metric": "scale-invariant"}, "--anisotropy 2": {"anisotropy": 2.0}}
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
    done(run("decompose solid.off --volume --samples 1000 -k 6 --no-report --out v"), "v/basis.safetensors")
    assert ep.Basis.load("v/basis.safetensors").info["dimension"] == pytest.approx(3, abs=0.3)
    done(run("decompose bunny.obj --samples 1000 -k 5 --no-report --out more"), "more/basis.safetensors")
    assert ep.Basis.load("more/basis.safetensors").n == 1000


def test_the_seed_settles_everything(run: Run) -> None:
    for out in ("one", "two"):
        done(run(f"decompose bunny.obj -k 6 --samples 300 --seed 3 --no-report --out {out}"))
    assert Path("one/basis.safetensors").read_bytes()[-1000:] == Path("two/basis.safetensors").read_bytes()[-1000:]


def test_pretrained(run: Run) -> None:
    done(run("decompose bunny.obj -m pretrained -k 10 --no-report --out p"), "p/basis.safetensors")
    files = [f"e/{name}.safetensors" for name in ("a", "b", "cloud")]
    assert "encoded 3 of 3 shapes" in done(run("encode meshes cloud.xyz -k 10 --out e"), *files)
    assert ep.Basis.load("e/cloud.safetensors").n == 390


def test_encode_skips_what_is_bad_and_overwrites_nothing(run: Run) -> None:
    shutil.copytree("meshes", "others/meshes")
    shutil.copy("broken.obj", "meshes/c.obj")
    np.savetxt("few.xyz", np.eye(3))
    code, out, err = run("encode meshes others/meshes few.xyz -k 10 --samples 300 --out e")
    assert code == 2 and "2 of 6 shapes were not encoded" in err and Path("e/a.safetensors").is_file()
    assert "encoded 4 of 6 shapes" in out and "skipped meshes/c.obj" in out and "skipped few.xyz" in out
    assert Path("e/a-2.safetensors").is_file()


def test_embed(run: Run) -> None:
    out = done(
        run("embed features.npz --labels labels -k 3 --out e"), "e/embedding.npz", "e/summary.json", "e/report.html"
    )
    assert "240 rows, 3 coordinates, direct" in out
    assert f"in {json.loads(Path('e/summary.json').read_text())['seconds']:.1f} s" in out
    with np.load("e/embedding.npz") as arrays:
        assert arrays["embedding"].shape == (240, 3)
        assert arrays["eigenvalues"].shape == (3,) and np.isclose(arrays["mass"].sum(), 1)
        assert arrays["labels"].shape == (240,)
    done(run("embed cells.csv --labels celltype -k 2 --metric euclidean --neighbors 12 --no-report --out c"))
    done(run("embed train.npy --new test.npy -k 4 --no-report --out n"), "n/embedding.npz")
    with np.load("n/embedding.npz") as arrays:
        assert arrays["new"].shape == (80, 4)


def test_the_map_of_embed_has_texts_and_new_rows(run: Run) -> None:
    with np.load("features.npz") as arrays:
        count = len(arrays["features"])
    Path("sentences.txt").write_text("".join(f"sentence {i}\n" for i in range(count)))
    done(run("embed features.npz --labels labels --text sentences.txt --new features.npz -k 2 --out t"))
    data = payload(Path("t/report.html").read_text())
    assert data["texts"][7] == "sentence 7" and data["new"]["n"] == count and data["colourings"][0]["classes"]


def test_decompose_by_graph_smoother_and_probes(run: Run) -> None:
    words = "decompose bunny.obj -k 5 --samples 200 --no-report --force"
    summary = Path("d/summary.json")
    done(run(f"{words} --smoother row --neighbours 10 --bandwidth 0.4 --dimension 2 --eigenvalues worst --out d"))
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


def test_train(run: Run) -> None:
    out = done(run(f"train pretrain {TINY_PRETRAIN} --out p"), "p/model/config.json")
    assert "ep.SpectralModel.from_pretrained('p/model')" in out
    images = "train paper_images dataset=stl10 extractor=clip features=features.npz"
    done(run(f"{images} {TINY_IMAGES} --out i"), "i/basis.safetensors")
    assert ep.Basis.load("i/basis.safetensors").k == 11


def test_train_one_shape_and_continue(run: Run) -> None:
    words = "train overfit shape=bunny.obj k=6 steps=3 --out o"
    out = done(run(words), "o/basis.safetensors", "o/summary.json", "o/last.ckpt")
    assert "trained overfit" in out
    assert ep.Basis.load("o/basis.safetensors").k == 6
    done(run(words))  # from the checkpoint: nothing left to do


def test_reproduce_overfit(run: Run) -> None:
    words = (
        "reproduce overfit meshes/a.obj cloud.xyz --way ours -k 6 --n 200 --steps 3 --resamplings 1 --size 300 --out r"
    )
    out = done(run(words), "r/overfit.json", "r/overfit.md")
    assert "skipped cloud.xyz" in out and "| a " in out


def test_reproduce_the_papers_way(run: Run) -> None:
    small = "--way paper --quick --steps 3"
    out = done(run(f"reproduce overfit meshes/a.obj -k 6 --n 150 --size 100 {small} --out p"), "p/overfit.json")
    assert "random weights" in out and "closed form of its probes" in out and "| published |" in out
    rows = json.loads(Path("p/overfit.json").read_text())["rows"]
    assert rows[0]["method"] == "the paper's way" and {"discrepancy_fixed", "discrepancy_rayleigh"} <= set(rows[0])
    out = done(run(f"reproduce generalisation meshes/a.obj -k 6 --n 100 {small} --out q"), "q/generalisation.json")
    assert "1 shapes | none" in re.sub(" +", " ", out) and "k<=5" in out and "random weights" in out
    out = done(run(f"reproduce images features.npz --ks 2 --dataset stl10 {small} --out r"), "r/images.json")
    assert "0.790 / 0.712" in out and "closed form of the paper's probes" in out  # STL10 at k = 2
    assert "(the paper's way)" in out and "Isomap" in out
    assert "0.9" in done(run("reproduce toy1d --way paper --quick --steps 150 --out t"), "t/toy1d.json")


def test_reproduce_generalisation(run: Run) -> None:
    words = "reproduce generalisation meshes/a.obj cloud.xyz --way ours -k 10 --n 250 --volumes 1 --no-figures --out g"
    out = done(run(words), "g/generalisation.json", "g/generalisation.csv")
    assert "closed form" in out and "polynomials" in out and "skipped cloud.xyz" in out


def test_evaluate(run: Run) -> None:
    out = done(run("evaluate surfaces meshes --n 300 -k 10 --no-figures --out m"), "m/surfaces.csv", "m/surfaces.json")
    assert "| a " in out and "robust" in out
    done(run("evaluate volumes solid.off --n 300 -k 6 --no-figures --out v"), "v/volumes.json")
    out = done(run("evaluate scans solid.off --kinds random strays:0.1 --points 250 -k 5 --out s"), "s/scans.json")
    assert "a share of 0.1 strays" in out and "robust_laplacian" in out


def test_reproduce_toy1d(run: Run) -> None:
    out = done(run("reproduce toy1d --way both --steps 20 --probes 2000 --out t"), "t/toy1d.png", "t/toy1d.json")
    assert "expected loss" in out
    rows = json.loads(Path("t/toy1d.json").read_text())["rows"]
    assert [len([name for name in row if name.startswith("cos")]) for row in rows] == [4, 4]


def test_reproduce_images(run: Run) -> None:
    words = "reproduce images features.npz --way ours --runs 1 --n 120 --ks 2 --methods pca direct --out i"
    out = done(run(words), "i/images.json", "i/images.md", "i/images.tex")
    assert "PCA" in out and "NMI" in out


def test_cache(run: Run) -> None:
    assert "2 prepared" in done(run("cache meshes -k 8 --jobs 1 --out oracles"))
    assert "2 already there" in done(run("cache meshes -k 8 --jobs 1 --out oracles"))


def test_features(run: Run) -> None:
    write_vision_model(Path("weights"))
    out = done(run("features photos --model weights --batch 4 --out f"), "f/features.npz")
    assert "eigenprobe embed f/features.npz" in out
    with np.load("f/features.npz") as arrays:
        assert arrays["features"].shape == (6, 32) and arrays["labels"].shape == (6,)


def test_view(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from urllib.request import urlopen

    seen: list[int] = []

    def look() -> None:
        text = sys.stdout.getvalue() if hasattr(sys.stdout, "getvalue") else ""
        address = re.search(r"http://\S+?(?=[,\s])", text or "http://127.0.0.1:18080 ")
        assert address is not None and "127.0.0.1" in address[0]
        seen.append(urlopen(address[0], timeout=10).status)
        raise KeyboardInterrupt

    monkeypatch.setattr("eigenprobe.cli.tour._wait", look)
    out = done(run("view bunny.obj -k 6 --port 18080"))
    assert "viewer at http://127.0.0.1:" in out and "viewer ended" in out
    assert seen == [200]


def test_demo(run: Run) -> None:
    files = ("d/creature.obj", "d/basis.safetensors", "d/eigenfunctions.png", "d/pretrained.png", "d/report.html")
    out = done(run("demo --out d -k 12 "), *files)
    assert out.splitlines()[-1] == f"now open {Path('d/report.html').resolve().as_uri()} in a browser"
    basis, shape = ep.Basis.load("d/basis.safetensors"), ep.geometry.load("d/creature.obj")
    assert (basis.faces == shape.faces).all()  # `view` draws its mesh


UNUSABLE = [
    ("decompose missing.obj", "missing.obj"),
    ("decompose nothing", "nothing"),
    ("decompose broken.obj", "broken.obj"),
    ("decompose broken.npz", "broken.npz"),
    ("decompose nan.xyz", r"nan.xyz: point 1 is .*expected finite"),
    ("decompose cells.parquet", "expected one of"),
    ("decompose bunny.obj -k 5000", "5000"),
    ("decompose bunny.obj -k 0", "0"),
    ("decompose cloud.xyz --volume", "needs a closed mesh"),
    ("decompose bunny.obj --samples 0", "--samples"),
    ("decompose bunny.obj --device cuda:77", "--device cuda:77 cannot be used here"),
    ("decompose bunny.obj --device toaster", "--device toaster cannot be used here"),
    ("decompose bunny.obj -m pretrained --model nowhere", "nowhere"),
    ("embed missing.npz", "missing.npz"),
    ("embed empty.npz", "empty.npz"),
    ("embed broken.npz", "broken.npz"),
    ("embed cells.csv --labels nope", "nope"),
    ("embed features.npz -k 900", "900"),
    ("train missing.yaml", "missing.yaml"),
    ("train nan.xyz", "expected a recipe whose kind is one of"),
    ("train pretrain nonsense", "expected key=value, got 'nonsense'"),
    ("train pretrain speed=9", "no key 'speed'"),
    ("encode missing/", "missing"),
    ("encode nothing", "nothing"),
    ("encode broken.obj", "broken.obj"),
    ("evaluate surfaces missing", "missing"),
    ("evaluate surfaces nothing", "nothing"),
    ("evaluate surfaces cloud.xyz", "none of the shapes could be measured"),
    ("reproduce overfit missing", "missing"),
    ("reproduce generalisation missing", "missing"),
    ("reproduce images missing.npz", "missing.npz"),
    ("cache missing", "missing"),
    ("cache nothing", "no meshes"),
    ("features missing", "missing"),
    ("features nothing", "nothing"),
    ("view missing.safetensors", "missing.safetensors"),
    ("view broken.obj", "broken.obj"),
    ("decompose bunni.obj", r"no such file.*did you mean bunny.obj\?"),
    ("decompose meshs", r"did you mean meshes\?"),
    ("decompose meshes/aa.obj", r"did you mean meshes/a.obj\?"),
    ("embed feature.npz", r"did you mean features.npz\?"),
    ("decompos bunny.obj", r"no command 'decompos' \(did you mean decompose\?\)"),
    ("evaluate surface meshes", r"did you mean surfaces\?"),
    ("decompose bunny.obj --neigbours 8", r"no option --neigbours \(did you mean --neighbours\?\)"),
    ("decompose bunny.obj --smother row", r"did you mean --smoother\?"),
    ("decompose bunny.obj --smoother rows", "rows"),
    ("decompose bunny.obj --neighbors many.npx", "many.npx"),
    ("embed features.npz --metrics cosine", r"did you mean --metric\?"),
    ("embed cells.csv --labels celtype", r"has no column 'celtype'.*did you mean celltype\?"),
    ("embed cells.csv --labels celltype --drop f99", r"has no column 'f99'"),
    ("embed cells.csv", "column 'celltype' is not: name it as the labels, or drop it"),
    ("embed gaps.csv", r"gaps.csv: row 1 \(line 3\) has no number in column b, and 1 more rows; --missing drop"),
    ("embed features.npz --labels nope", "has no array 'nope'"),
    ("decompose two.npz", r"choose one by key \(--key on the command line\)"),
    ("train pretran", r"no such recipe: pretran \(did you mean pretrain\?\)"),
    ("train pretrain sed=3", r"no key 'sed' \(did you mean seed\?\)"),
    ("decompose bunny.obj surplus.obj extra.obj -k x", "-k|--k takes a whole number"),
    ("decompose", "missing SHAPES"),
    ("embed features.npz --map-dimensions 4", "--map-dimensions takes one of 2, 3"),
]


@pytest.mark.parametrize("words, pattern", UNUSABLE, ids=[words for words, _ in UNUSABLE])
def test_bad_input_is_one_line_and_writes_nothing(words: str, pattern: str, run: Run) -> None:
    code, _, err = run(words)
    assert code == 2, err
    lines = [line for line in err.splitlines() if "warning:" not in line]
    assert len(lines) == 1 and re.search(pattern, lines[0]), err
    assert not leftovers(Path.cwd())


@pytest.mark.parametrize(
    "words",
    [
        "decompose bunny.obj",
        "embed features.npz",
        "encode meshes",
        "evaluate surfaces meshes",
        "reproduce toy1d",
        "cache meshes --jobs 1",
        "demo",
    ],
)
def test_a_folder_that_cannot_be_written_fails_before_the_work(words: str, run: Run) -> None:
    code, _, err = run(f"{words} --out blocked/inside")
    assert code == 2
    assert re.search(r"cannot write to .*blocked", err) and len(err.splitlines()) == 1, err


def test_interrupted_while_writing_leaves_no_half_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(tensors: object, path: str, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("eigenprobe.basis.save_file", half)
    code, _, err = run("decompose bunny.obj -k 5 --out i")
    assert (code, err) == (130, "eigenprobe: interrupted\n")
    assert not list(Path("i").iterdir())


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["interrupt", "terminate"])
def test_signals(sent: signal.Signals, code: int, run: Run) -> None:
    """A real process, stopped in the middle of its work."""
    program = (
        "import sys, time, eigenprobe.host.files\n"
        "from pathlib import Path\n"
        "from eigenprobe.cli import main\nfrom eigenprobe_lab.cli import experiments\n"
        "def toy1d(*, session):\n"
        "    'Slow.'\n"
        "    with eigenprobe.host.files.atomic_path(Path('w/big.json')) as path:\n"
        "        path.write_text('half'); print('ready', flush=True); time.sleep(60)\n"
        "experiments.toy1d = toy1d\n"
        "sys.argv = ['eigenprobe', 'reproduce', 'toy1d']\n"
        "sys.exit(main())\n"
    )
    source = str(Path(ep.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": source}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(sent)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err == f"eigenprobe: {'interrupted' if code == 130 else 'terminated'}\n"
    assert not list(Path("w").iterdir())


def test_an_interrupted_training_saves_first_and_goes_on(run: Run) -> None:
    words = "train overfit shape=bunny.obj k=5 checkpoint_every=1000000 --out t"
    environment = {**os.environ, "PYTHONPATH": str(Path(ep.__file__).parent.parent)}
    command = [sys.executable, "-m", "eigenprobe", *words.split(), "steps=1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 90
    while not list(Path("t").glob("csv/**/metrics.csv")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.fullmatch(r"eigenprobe: .*interrupted.*\n", err) and Path("t/last.ckpt").is_file(), err
    assert not leftovers(Path("t"))


def test_decompose_a_folder(run: Run) -> None:
    """One basis per file; a bad one is named, costs the exit code, and nothing else."""
    shutil.copytree("meshes", "others/meshes")
    words = "decompose meshes others/meshes/a.obj cloud.xyz -k 5 --no-report --out d"
    files = [f"d/{name}/basis.safetensors" for name in ("a", "b", "a-2", "cloud")]
    out = done(run(words), *files)
    assert "decomposed 4 of 4 shapes" in out and "decomposed cloud.xyz: 390 points, 5 vectors, direct" in out
    shutil.copy("broken.obj", "meshes/c.obj")
    code, out, err = run("decompose meshes -k 5 --no-report --out e")
    assert code == 2 and "1 of 3 shapes were not decomposed" in err and len(err.splitlines()) == 1
    assert "skipped meshes/c.obj" in out and "decomposed 2 of 3 shapes" in out
    assert all(Path(f"e/{name}/basis.safetensors").is_file() for name in "ab")


def test_a_basis_knows_where_its_points_come_from(run: Run) -> None:
    vertices = ep.geometry.load("bunny.obj").vertices
    done(run("encode bunny.obj -k 5 --samples 200 --out e"))
    done(run("decompose bunny.obj -k 5 --samples 200 --no-report --out d"))
    for path, source in (("e/bunny.safetensors", "bunny.obj"), ("d/basis.safetensors", "bunny.obj")):
        basis = ep.Basis.load(path)
        assert basis.rows is not None and np.array_equal(basis.points, vertices[basis.rows])
        assert basis.info["source"] == source
    done(run("decompose bunny.obj -k 5 --no-report --out whole"))
    whole = ep.Basis.load("whole/basis.safetensors")
    assert whole.rows is None and np.array_equal(whole.faces, ep.geometry.load("bunny.obj").faces)


@pytest.mark.parametrize(
    "words, path",
    [
        ("decompose cloud.xyz -k 4 --no-report --out o", "o/basis.safetensors"),
        ("embed train.npy -k 2 --no-report --out o", "o/embedding.npz"),
        ("encode cloud.xyz -k 4 --out o", "o/cloud.safetensors"),
    ],
)
def test_what_exists_is_overwritten_by_force_only(words: str, path: str, run: Run) -> None:
    done(run(words), path)
    before = Path(path).stat().st_mtime_ns
    code, _, err = run(words)
    assert code == 2 and re.search(rf"{path} exists: choose another --out, or overwrite it by --force", err), err
    assert Path(path).stat().st_mtime_ns == before
    done(run(f"{words} --force"), path)
    assert Path(path).stat().st_mtime_ns > before


def test_columns_and_dimensions_are_told(run: Run) -> None:
    points = np.random.default_rng(0).normal(size=(60, 4))
    np.savetxt("table.csv", points, delimiter=",", header="p,q,r,s", comments="")
    assert "60 points in 4 dimensions, 3 vectors" in done(run("decompose table.csv -k 3 --no-report --out a"))
    out = done(run("decompose table.csv --columns p,q -k 3 --no-report --out b"))
    assert "60 points in 2 dimensions, 3 vectors" in out
    assert np.allclose(ep.Basis.load("b/basis.safetensors").points, points[:, :2])


def test_a_folder_with_everything_in_it(run: Run) -> None:
    """Sub-folders, twins by suffix, other alphabets; hidden files are left alone, and a second run goes on."""
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


def test_what_exists_is_not_solved_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device too, where shapes are solved together before their turn comes."""
    from eigenprobe.cli import clouds

    monkeypatch.setattr(clouds, "HOSTS", ())
    done(run("decompose meshes -k 5 --no-report --device cpu --out d"))
    alone = ep.decompose("meshes/a.obj", k=5)
    np.testing.assert_allclose(ep.Basis.load("d/a/basis.safetensors").eigenvalues, alone.eigenvalues, atol=1e-6)
    monkeypatch.setattr(clouds, "_library", lambda: pytest.fail("solved again"))
    assert "0 of 2 shapes, 2 already there" in done(run("decompose meshes -k 5 --no-report --device cpu --out d"))


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
    done(run(f"encode file://{here} memory://clouds/below/b.obj -k 5 --out e"), "e/a.safetensors", "e/b-2.safetensors")
    found, expected = (ep.Basis.load(f"{name}/basis.safetensors") for name in ("d/a", "one"))
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-9)
    with fsspec.open("memory://others/a.obj", "wb") as file:  # another file of this name, and then a newer one
        file.write(Path("meshes/b.obj").read_bytes())
    for original in ("b.obj", "a.obj"):
        found = ep.decompose("memory://others/a.obj", 4)
        np.testing.assert_allclose(found.eigenvalues, ep.decompose(f"meshes/{original}", 4).eigenvalues, rtol=1e-9)
        with fsspec.open("memory://others/a.obj", "wb") as file:
            file.write(Path("meshes/a.obj").read_bytes())
    for words in ("decompose memory://nothing/a.obj", "decompose memory://nothing", "encode gone://x/a.obj"):
        code, _, err = run(f"{words} -k 5 --out n")
        assert code == 2 and re.fullmatch(r"eigenprobe: .*(nothing|gone).*\n", err), err


def test_tables_with_other_marks_missing_values_and_chosen_columns(run: Run) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 3))
    for name, mark in (("comma.csv", ","), ("semicolon.csv", ";"), ("tab.csv", "\t")):
        lines = [mark.join(["a", "b", "c", "kind", "word"])]
        lines += [mark.join([*(f"{x:.6f}" for x in row), f"k{i % 2}", f"w{i}"]) for i, row in enumerate(values)]
        Path(name).write_text("\n".join(lines) + "\n")
        words = f"embed {name} --labels kind --text word -k 2 --no-layout --no-report --out {name}-out"
        assert "60 rows" in done(run(words), f"{name}-out/embedding.npz")
    found = [np.load(f"{name}-out/embedding.npz")["embedding"] for name in ("comma.csv", "semicolon.csv", "tab.csv")]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    decimal = Path("semicolon.csv").read_text().replace(".", ",")  # as a spreadsheet in Germany writes it
    Path("decimal.csv").write_text(decimal)
    done(run("embed decimal.csv --labels kind --drop word -k 2 --no-layout --no-report --out decimal"))
    np.testing.assert_array_equal(np.load("decimal/embedding.npz")["embedding"], found[0])
    # Columns by name, by number, and left out.
    chosen = "embed comma.csv -k 1 --no-layout --no-report"
    for number, options in enumerate(("--columns a,b", "--columns 0,1", "--drop c,kind,word")):
        done(run(f"{chosen} {options} --out c{number}"))
    first, *others = [np.load(f"c{number}/embedding.npz")["embedding"] for number in range(3)]
    for other in others:
        np.testing.assert_array_equal(first, other)
    # Missing values can be dropped, with their labels.
    lines = Path("comma.csv").read_text().splitlines()
    lines[5] = ",,," + ",".join(lines[5].split(",")[3:])
    Path("holes.csv").write_text("\n".join(lines) + "\n")
    words = "embed holes.csv --labels kind --text word --missing drop -k 2 --no-layout --out holes"
    code, out, err = run(words)
    assert code == 0 and "59 rows" in out and "1 of 60 rows have missing values and are left out" in err
    assert len(np.load("holes/embedding.npz")["labels"]) == 59
    assert "neighbors" not in done(run("decompose cloud.xyz -k 4 --neighbors 12 --no-report --device cpu --out n"))


def test_an_interrupted_run_without_a_folder_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import lightning.pytorch as pl
    import torch

    from eigenprobe.training import fit_network

    def stop(*_: object, **__: object) -> None:
        from eigenprobe.training.runs import INTERRUPTED

        raise SystemExit(INTERRUPTED)

    monkeypatch.setattr(pl.Trainer, "fit", stop)
    points = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(KeyboardInterrupt, match="interrupted; nothing of it is saved"):
        fit_network(torch.as_tensor(points), 4, steps=2)


def test_a_warning_of_fit_transform_points_to_the_caller() -> None:
    x = np.repeat(np.random.default_rng(0).normal(size=(30, 3)), 2, 0)
    with pytest.warns(ep.EigenprobeWarning, match="coincide") as caught:
        ep.OptimalApproximationEigenmaps(2, device="cpu").fit_transform(x)
    assert {warning.filename for warning in caught if warning.category is ep.EigenprobeWarning} == {__file__}
