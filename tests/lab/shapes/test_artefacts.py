"""Every family of `shapes.artefacts`: finite clouds, the same for the same seed, others for
another.
"""

from __future__ import annotations

import pytest

from eigenprobe_lab.shapes import artefacts
from tests.lab.families import check_family, families_of


@pytest.mark.parametrize("name", families_of(artefacts))
def test_family(name: str) -> None:
    check_family(name)
