"""Types that a user's checker believes: a script is checked as a user would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from pathlib import Path

import numpy as np
import torch

import eigenprobe as ep

reveal_type(ep.decompose(np.zeros((9, 3)), k=3).eigenvalues)
reveal_type(ep.decompose("bunny.obj").vectors)
reveal_type(ep.decompose(Path("bunny.obj"), dimension=2).mass)
reveal_type(ep.decompose(torch.zeros((9, 3))).vectors)
reveal_type(ep.decompose([np.zeros((9, 3))] * 2, 3)[0])
reveal_type(ep.decompose(ep.datasets.creature()).vectors)
ep.decompose("bunny.obj", neigbours=12)
"""


def test_a_users_script_is_understood(tmp_path: Path) -> None:
    """Arrays of files and numpy are numpy's, those of tensors tensors; a wrong option is found."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    source = Path(__file__).parent.parent / "src"
    command = [sys.executable, "-m", "mypy", "--no-incremental", str(path)]
    config = ["--follow-imports", "silent", "--ignore-missing-imports", "--python-version", "3.11"]
    environment = {"MYPYPATH": str(source), "PATH": ""}
    found = subprocess.run(
        command + config, capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    lines = [line for line in found.stdout.splitlines() if "Revealed" in line]
    assert [("ndarray" in line, "Tensor" in line) for line in lines] == [
        (True, False),
        (True, False),
        (True, False),
        (False, True),
        (False, False),
        (True, False),
    ], found.stdout
    assert found.stdout.count("error:") == 1 and "No overload variant" in found.stdout
