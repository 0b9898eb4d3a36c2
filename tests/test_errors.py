"""Errors are one line, warnings point to the caller, a missing package names its extra."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from eigenprobe.errors import (
    EXTRAS,
    EigenprobeWarning,
    InputError,
    extra,
    held_warnings,
    missing_extra,
    warn,
)


def test_a_message_is_one_line_of_limited_length() -> None:
    text = str(InputError(f"got {np.zeros((200, 30))}\n and more"))
    assert "\n" not in text and len(text) <= 2000 and len(str(InputError("x" * 9000))) == 2000


def test_a_warning_points_to_the_line_of_the_caller() -> None:
    with pytest.warns(EigenprobeWarning, match="far") as found:
        warn("far apart")
    assert found[0].filename == __file__


def test_a_missing_package_names_its_extra() -> None:
    for package, name in EXTRAS.items():
        error = ModuleNotFoundError("", name=f"{package}.part")
        assert missing_extra(error) == f"this needs {package}: pip install 'eigenprobe[{name}]'"
    assert missing_extra(ModuleNotFoundError("", name="unknown")) == ""
    with pytest.raises(ModuleNotFoundError):
        extra("no_such_package_at_all")
    assert extra("json").dumps([1]) == "[1]"


def test_warnings_are_held_for_one_thread_alone() -> None:
    """What a solver says whose answer is replaced is dropped, and other threads go on to warn
    meanwhile.
    """
    with pytest.warns(EigenprobeWarning) as shown, held_warnings() as said:
        warn("held")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(warn, "shown").result()
        with held_warnings() as inner:
            warn("inner")
    assert (
        said == ["held"]
        and inner == ["inner"]
        and [str(each.message) for each in shown] == ["shown"]
    )
