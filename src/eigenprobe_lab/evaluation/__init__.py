"""Measuring a result against an oracle and against labels.

alignment                         a basis against the exact one at the same points
clustering                        an embedding against labels
samples, surfaces, surface_*      every method on every mesh of a folder, as tables and figures
scanner                           a mesh as scanners measure it: points with their true places
tables                            rows as Markdown, CSV and JSON
"""

from eigenprobe.evaluation import Alignment, compare, compare_vectors

__all__ = ["Alignment", "compare", "compare_vectors"]
