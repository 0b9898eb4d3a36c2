"""Every family of `shapes.creatures`: finite clouds, the same for the same seed, others for
another.
"""

from __future__ import annotations

import pytest

from eigenprobe_lab.shapes import creatures
from tests.lab.families import check_family, families_of


@pytest.mark.parametrize("name", families_of(creatures))
def test_family(name: str) -> None:
    check_family(name)
