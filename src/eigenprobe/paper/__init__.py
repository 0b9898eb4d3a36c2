"""The paper's experiments, protocols, peers and published numbers."""

from __future__ import annotations
