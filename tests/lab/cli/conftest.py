"""The commands of the laboratory are called as those of the library."""

from tests.cli.conftest import run, supplies  # noqa: F401 (fixtures)
