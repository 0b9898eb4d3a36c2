"""Which points to work on: inspection, outliers, the sample of a cloud; farthest points."""

from .farthest import farthest_points
from .inspection import Inspection, find_outliers, inspect
from .working import WorkingSample, working_sample
