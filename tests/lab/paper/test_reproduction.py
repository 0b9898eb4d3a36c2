"""Tests of `paper.reproduction`."""

from __future__ import annotations

from eigenprobe_lab.paper.published import single_shape
from eigenprobe_lab.paper.reproduction import COLUMNS, CONTROL, ORACLE, REASONS, THEIRS, cell, line, shape_lines


def test_a_cell_is_the_mean_of_the_rows_that_match() -> None:
    rows = [{"method": "a", "x": 0.25, "y": 1.0}, {"method": "a", "x": 0.75}, {"method": "b", "x": 9.0}]
    assert cell(rows, ("x", "y"), method="a") == "0.500 / 1.000"
    assert cell(rows, ("x", "y"), method="b") == "9.000 / -"
    assert cell(rows, ("x",), method="c") == "not measured" and cell([{}], ("x",), "none") == "none"
    assert line("what", "where") == dict(zip(COLUMNS, ("what", "where"), strict=False))


def test_lines_of_a_shape_of_the_paper_and_of_another() -> None:
    """The control of the cosines is the closed form of the probes, that of the eigenvalues the oracle's vectors."""
    methods = (THEIRS, CONTROL, "closed form", ORACLE)
    rows = [{"method": name, "cosine_10": 0.1 * i, "discrepancy": 0.01 * i} for i, name in enumerate(methods, 1)]
    cosines, eigenvalues = shape_lines([row | {"shape": "horse"} for row in rows], (10,))
    known = single_shape("horse")
    assert cosines["published"] == f"{known['cosine_10']:.3f}" and cosines["reason for the gap"] == REASONS["shape"]
    assert [cosines[name] for name in COLUMNS[3:6]] == ["0.100", "0.200", "0.300"]
    assert [eigenvalues[name] for name in COLUMNS[3:6]] == ["0.010", "0.040", "0.030"]
    assert eigenvalues["reason for the gap"] == REASONS["eigenvalues"]
    unknown, _ = shape_lines([row | {"shape": "bumpy"} for row in rows], (10,))
    assert unknown["published"] == "none" and unknown["reason for the gap"] == REASONS["unknown"]
