"""Tests of `extensions`: a network of features that are averaged over fitted neighbours."""

from __future__ import annotations

import torch

from eigenprobe import networks
from eigenprobe.cloud.cloud import arrange
from eigenprobe.extensions import NeighbourhoodExtension, NetworkExtension
from eigenprobe.extensions.functions import packed, unpacked
from eigenprobe.smoothers import neighbourhood_smoother


def test_values_are_the_network_of_the_extended_features_and_a_file_holds_them() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(80, 6, generator=generator, dtype=torch.float64)
    features, matrix = (
        torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((80, 5), (3, 3))
    )
    cloud = arrange(rows, 8, 3)
    smoother = neighbourhood_smoother(cloud.graph)
    context = NeighbourhoodExtension.of(cloud, smoother, features, torch.ones(5))
    network = networks.build("cpu", 5, 3, generator)
    function = NetworkExtension(network, context, features[:0], matrix=matrix)
    values = function(rows[:9])
    expected = function.network(context(rows[:9]))
    expected[:, 0] = 1
    torch.testing.assert_close(values, expected @ matrix)
    torch.testing.assert_close(function(rows[4:5]), values[4:5])
    again = unpacked(*packed(function))
    torch.testing.assert_close(
        again(rows[:9]), values, rtol=1e-5, atol=1e-6
    )  # weights are stored in single precision
