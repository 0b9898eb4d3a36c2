"""The tiny model of the tests of `pretrained`."""

from tests.pretrained.conftest import clouds, folder, model  # noqa: F401 (fixtures)
