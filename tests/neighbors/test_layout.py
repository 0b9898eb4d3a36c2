"""Tests of `search.layout`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenprobe.errors import EigenprobeWarning
from eigenprobe.neighbors.layout import Segments, framed
from eigenprobe.points import Frame


def test_stacked_clouds_have_the_frames_that_they_have_alone(rng: np.random.Generator) -> None:
    parts = [
        torch.from_numpy(scale * rng.normal(size=(n, 3)) + scale)
        for n, scale in ((30, 1.0), (50, 1e-6), (7, 1e5))
    ]
    each = Segments((30, 50, 7), torch.device("cpu"))
    points, frames, scale = framed(torch.cat(parts), each)
    for part, moved, frame, size in zip(
        parts, points.split([30, 50, 7]), frames, scale, strict=True
    ):
        alone = Frame.of(part)
        torch.testing.assert_close(frame.centre, alone.centre)
        assert frame.scale == float(size) == pytest.approx(alone.scale)
        torch.testing.assert_close(moved, alone(part))


@pytest.mark.parametrize("sizes", [(5, 5, 5), (3, 8, 1), (7,)])
def test_medians_of_stacked_clouds_are_those_alone(sizes):
    values = torch.randn(
        sum(sizes), generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    each = Segments(sizes, values.device)
    assert each.median(values).tolist() == [
        float(part.median()) for part in values.split(list(sizes))
    ]
    assert each.real.sum(1).tolist() == list(sizes) and bool(each.real[:, 0].all())


@pytest.mark.parametrize("sizes", [(5,), (4, 4, 4), (3, 7, 1, 5)])
def test_segments_are_slices(sizes: tuple[int, ...], rng: np.random.Generator) -> None:
    """Whatever is taken per cloud is what a loop over slices takes; with one cloud, equal and
    unequal ones.
    """
    each = Segments(sizes, torch.device("cpu"))
    n, ends = sum(sizes), np.cumsum(sizes)
    slices = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    x, y = (torch.from_numpy(rng.normal(size=(n, 2))) for _ in range(2))
    assert (
        len(each) == len(sizes) and each.most == max(sizes) and each.equal == (len(set(sizes)) == 1)
    )
    assert each.first.tolist() == [s.start for s in slices] and each.counts.tolist() == list(sizes)
    assert each.owner.tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]
    padded = each.padded(x, fill=7.0)
    for row, own, size in zip(padded, slices, sizes, strict=True):
        assert torch.equal(row[:size], x[own]) and bool((row[size:] == 7).all())
    assert torch.equal(each.stacked(padded), x)
    torch.testing.assert_close(each.sum(x), torch.stack([x[own].sum(0) for own in slices]))
    torch.testing.assert_close(each.mean(x), torch.stack([x[own].mean(0) for own in slices]))
    torch.testing.assert_close(
        each.mean(x[:, 0]), torch.stack([x[own, 0].mean() for own in slices])
    )
    inner = torch.stack([(x[own, 0] * y[own, 0]).sum() for own in slices])
    torch.testing.assert_close(each.inner(x[:, 0], y[:, 0]), inner)
    assert torch.equal(
        each.spread(x[: len(sizes)]), torch.cat([x[i].expand(s, 2) for i, s in enumerate(sizes)])
    )


def test_separate_parts_are_counted_by_cloud() -> None:
    """Labels ascend from cloud to cloud; a cloud of several parts is said, one of one part is
    not.
    """
    each, labels = (
        Segments((3, 2, 4), torch.device("cpu")),
        torch.tensor([0, 1, 0, 2, 2, 3, 4, 5, 3]),
    )
    with pytest.warns(EigenprobeWarning) as said:
        assert each.parts((6, labels)) == [2, 1, 3]
    assert ["of 3 points has 2 separate" in str(w.message) for w in said] == [True, False]
    assert "of 4 points has 3 separate parts: 3 eigenvalues are 0" in str(said[1].message)
