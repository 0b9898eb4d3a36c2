"""The charts of `figures`, by the name that they had before."""

from .figures import eigenvalue_curves, embeddings

__all__ = ["eigenvalue_curves", "embeddings"]
