"""Measuring a result against an oracle and against labels.

clustering                   an embedding against labels
samples, surfaces, grid      every method on every mesh of a folder, as tables and figures
neighbours                   ways to choose neighbours on clouds of meshes
scanner, scans               a mesh as scanners measure it, and what methods make of such clouds
fitted, pretrained, unseen   networks on one shape and on unseen ones
"""

from eigenprobe.evaluation import Alignment, compare, compare_vectors

__all__ = ["Alignment", "compare", "compare_vectors"]
