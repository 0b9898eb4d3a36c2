"""The former name of `generalisation`, which entry points of earlier installations load."""

from . import generalisation  # noqa: F401 (enters its kind of recipe)
