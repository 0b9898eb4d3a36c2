"""Which points to work on, and which of their neighbours are real: the cloud made ready,
inspection, outliers, the sample, short-cut edges; farthest points.
"""

from .cloud import Cloud, CloudGraph, arrange
from .farthest import farthest_points
from .inspection import Inspection, find_outliers, inspect
from .sample import WorkingSample, working_sample
