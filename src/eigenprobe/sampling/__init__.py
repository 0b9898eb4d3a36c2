"""Farthest points."""
