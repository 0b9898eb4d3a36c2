"""Interior samples: dimension three, the Neumann spectra of cube and ball, and the evaluation of
solids.
"""

from __future__ import annotations

import numpy as np
import pytest

from eigenprobe.io.shapes import Shape, save
from eigenprobe_lab.evaluation import surfaces
from eigenprobe_lab.evaluation.surfaces import Measure
from tests.meshes import blob, cube


@pytest.mark.long
def test_the_evaluation_of_a_solid(tmp_path) -> None:
    save(Shape(*blob(10)), tmp_path / "blob.off")
    vertices, faces = cube(2)
    save(Shape(vertices, faces[1:]), tmp_path / "open.off")
    tables = [
        surfaces.run([tmp_path], Measure(["direct"], 1500, 10, volume=True, seed=seed)).write(
            tmp_path / "out", "volumes"
        )
        for seed in range(4)
    ]
    found = tables[0]
    # Single samples have .87 to .97.
    assert np.mean([table.rows[0]["cosine_10"] for table in tables]) > 0.91
    assert found.rows[0]["dimension"] == pytest.approx(3, abs=0.3)
    assert "closed mesh" in found.failed["open.off"]
    assert (tmp_path / "out" / "volumes.json").exists()
