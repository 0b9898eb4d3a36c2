"""Tests of `extensions`: a network as a function of points."""

from __future__ import annotations

import pytest
import torch

from eigenprobe import networks
from eigenprobe.extensions import NetworkExtension
from eigenprobe.extensions.functions import packed, unpacked
from eigenprobe.points import Frame


@pytest.mark.parametrize("preset", ["cpu", "tiny"])
@pytest.mark.parametrize("learned", [False, True])
def test_values_are_the_formula_and_a_file_holds_them(preset: str, learned: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    points = 5 + torch.randn(60, 3, generator=generator, dtype=torch.float64)
    network = networks.build(preset, 3, 4, generator)
    frame, matrix = Frame.of(points), torch.randn(4, 4, generator=generator, dtype=torch.float64)
    function = NetworkExtension(network, frame, frame(points), learned, matrix)
    features = function.network(frame(points)[None])[0].clone()
    if not learned:
        features[:, 0] = 1  # the constant is known
    expected = features @ matrix
    expected = expected / expected[:, :1] if learned else expected
    torch.testing.assert_close(
        function(points), expected
    )  # at the points of the context attention sees them all
    torch.testing.assert_close(function(points[7:9]), expected[7:9])
    again = unpacked(*packed(function))
    torch.testing.assert_close(again(points), expected)
