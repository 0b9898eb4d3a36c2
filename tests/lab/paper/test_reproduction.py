"""Tests of `paper.reproduction`."""

from __future__ import annotations

from eigenprobe_lab.paper.published import single_shape
from eigenprobe_lab.paper.reproduction import (
    CLOSED,
    COLUMNS,
    ORACLE,
    REASONS,
    THEIRS,
    cell,
    line,
    shape_lines,
)


def test_a_cell_is_the_mean_of_the_rows_that_match() -> None:
    rows = [
        {"method": "a", "x": 0.25, "y": 1.0},
        {"method": "a", "x": 0.75},
        {"method": "b", "x": 9.0},
    ]
    assert cell(rows, ("x", "y"), method="a") == "0.500 / 1.000"
    assert cell(rows, ("x", "y"), method="b") == "9.000 / -"
    assert cell(rows, ("x",), method="c") == "not measured" and cell([{}], ("x",), "none") == "none"
    assert line("what", "where") == dict(zip(COLUMNS, ("what", "where"), strict=False))


def test_lines_of_a_shape_of_the_paper_and_of_another() -> None:
    """Beside eigenvalues stands what the same estimator gives with the oracle's vectors."""
    methods = (THEIRS, CLOSED, "closed form", ORACLE)
    rows = [
        {"method": name, "cosine_10": 0.1 * i, "discrepancy": 0.01 * i}
        for i, name in enumerate(methods, 1)
    ]
    rows[0]["discrepancy_rayleigh"] = 0.005
    found = shape_lines([row | {"shape": "horse"} for row in rows], (10,))
    cosines, eigenvalues, rayleigh = found
    known = single_shape("horse")
    assert cosines["published"] == f"{known['cosine_10']:.3f}"
    assert cosines["remark"] == REASONS["shape"]
    assert [cosines[name] for name in COLUMNS[3:6]] == ["0.100", "0.200", "0.300"]
    assert [eigenvalues[name] for name in COLUMNS[3:6]] == ["0.010", "0.020", "0.030"]
    assert "the oracle's vectors 0.040" in eigenvalues["remark"]
    assert rayleigh["the paper's way here"] == "0.005" and rayleigh["published"] == "none"
    unknown, *_ = shape_lines([row | {"shape": "bumpy"} for row in rows], (10,))
    assert unknown["published"] == "none" and unknown["remark"] == REASONS["unknown"]
