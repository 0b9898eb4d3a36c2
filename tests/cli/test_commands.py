"""Every command on small data: what it writes where, and what it says of a bad file, a bad folder,
an interruption.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import eigenprobe as ep
from tests.cli.conftest import Run, done, leftovers


def test_evaluate(run: Run) -> None:
    out = done(
        run("evaluate surfaces meshes --n 300 -k 10 --no-figures --out m"),
        "m/surfaces.csv",
        "m/surfaces.json",
    )
    assert "| a " in out and "robust" in out
    done(run("evaluate volumes solid.off --n 300 -k 6 --no-figures --out v"), "v/volumes.json")
    out = done(
        run("evaluate scans solid.off --kinds random strays:0.1 --points 250 -k 5 --out s"),
        "s/scans.json",
    )
    assert "a share of 0.1 strays" in out and "robust_laplacian" in out


UNUSABLE = [
    ("decompose missing.obj", "missing.obj"),
    ("decompose nothing", "nothing"),
    ("decompose broken.obj", "broken.obj"),
    ("decompose nan.xyz", r"nan.xyz: point 1 is .*expected finite"),
    ("decompose broken.yaml", "expected one of"),
    ("decompose bunny.obj -k 5000", "5000"),
    ("decompose bunny.obj -k 0", "0"),
    ("decompose bunny.obj --refine 2", "'direct' does not know the option 'refine', which is one"),
    ("decompose bunny.obj -m network --steps -3 -q", "steps must be at least 0, got -3"),
    ("decompose bunny.obj --bandwidth -1", "bandwidth must be above 0, got -1.0"),
    (
        "decompose bunny.obj -m pretrained --steps 2",
        "'pretrained' does not know the option 'steps'",
    ),
    ("decompose bunny.obj -m pretrained --smoother row", "does not take smoother"),
    ("decompose bunny.obj -m network --neighbours plain", "neighbours by name is known to method"),
    ("decompose cloud.xyz --volume", "needs a closed mesh"),
    ("decompose bunny.obj --samples -1", "--samples"),
    ("decompose bunny.obj --device cuda:77", "device 'cuda:77' cannot be used here"),
    ("decompose bunny.obj --device toaster", "device 'toaster' cannot be used here"),
    ("decompose bunny.obj -m pretrained --model nowhere", "nowhere"),
    ("embed missing.npz", "missing.npz"),
    ("embed empty.npz", "empty.npz"),
    ("embed features.npz -k 900", "900"),
    ("train nan.xyz", "expected a recipe whose kind is one of"),
    ("train pretrain nonsense", "expected key=value, got 'nonsense'"),
    ("train pretrain speed=9", "no key 'speed'"),
    ("encode nothing", "nothing"),
    ("encode broken.obj", "broken.obj"),
    ("evaluate surfaces missing", "missing"),
    ("evaluate surfaces cloud.xyz", "none of the shapes could be measured"),
    ("reproduce overfit missing", "missing"),
    ("reproduce generalisation missing", "missing"),
    ("reproduce images missing.npz", "missing.npz"),
    ("cache nothing", "no meshes"),
    ("features nothing", "nothing"),
    ("view missing.safetensors", "missing.safetensors"),
    ("decompose bunni.obj", r"no such file or folder.*did you mean bunny.obj\?"),
    ("decompose meshes/aa.obj", r"did you mean meshes/a.obj\?"),
    ("embed feature.npz", r"did you mean features.npz\?"),
    ("evaluate surface meshes", 'Did you mean "surfaces"'),
    ("decompose bunny.obj --smoother rows", "rows"),
    ("decompose bunny.obj --neighbors many.npx", "many.npx"),
    ("embed cells.csv --labels celtype", r"has no column 'celtype'.*did you mean celltype\?"),
    ("embed cells.csv --labels celltype --drop f99", r"has no column 'f99'"),
    ("embed cells.csv", "column 'celltype' is not: name it as the labels, or drop it"),
    (
        "embed gaps.csv",
        r"gaps.csv: row 1 \(line 3\) has no number in column b, and 1 more rows; --missing drop",
    ),
    ("embed features.npz --labels nope", "has no array 'nope'"),
    ("embed features.npz --labels nope.npy", "--labels: no such file: nope.npy"),
    ("train broken.yaml", r"cannot read broken.yaml: line 2: "),
    ("decompose two.npz", r"choose one by key \(--key on the command line\)"),
    ("train pretran", r"no such recipe: pretran \(did you mean pretrain\?\)"),
    ("train pretrain sed=3", r"no key 'sed' \(did you mean seed\?\)"),
    ("reproduce toy1d --resume perhaps", 'Choose from: "auto", "never"'),
    ("embed cells.csv --labels celltype --columns f99", "has no column 'f99'"),
    ("decompose bunny.obj --resolution some", "--resolution"),
    ("decompose bunny.obj --parts most", "--parts"),
    ("evaluate scans bunny.obj --kinds rigns:8", "rigns"),
    ("embed features.npz --map-dimensions 4", "--map-dimensions"),
]


@pytest.mark.parametrize("words, pattern", UNUSABLE, ids=[words for words, _ in UNUSABLE])
def test_bad_input_is_one_line_and_writes_nothing(words: str, pattern: str, run: Run) -> None:
    code, _, err = run(words)
    assert code == 2, err
    lines = [line for line in err.splitlines() if "warning:" not in line]
    assert len(lines) == 1 and re.search(pattern, lines[0]), err
    assert not leftovers(Path.cwd())


def test_interrupted_while_writing_leaves_no_half_file(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(tensors: object, path: str, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("eigenprobe.basis.save_file", half)
    code, _, err = run("decompose bunny.obj -k 5 --out i")
    assert (code, err) == (130, "eigenprobe: interrupted\n")
    assert not list(Path("i").iterdir())


@pytest.mark.parametrize(
    "sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["interrupt", "terminate"]
)
def test_signals(sent: signal.Signals, code: int, run: Run) -> None:
    """A real process, stopped in the middle of its work."""
    program = (
        "import sys, time, eigenprobe.host.files\n"
        "from pathlib import Path\n"
        "from eigenprobe.cli import main\nfrom eigenprobe.cli.session import SHARED, Session\n"
        "from eigenprobe_lab.cli import experiments\n"
        "def toy1d(*, session: Session = SHARED):\n"
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
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(sent)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err == f"eigenprobe: {'interrupted' if code == 130 else 'terminated'}\n"
    assert not list(Path("w").iterdir())
