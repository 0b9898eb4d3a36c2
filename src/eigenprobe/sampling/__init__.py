"""Which points to work on: strays, resolution and noise of a cloud, its working sample; farthest points."""

from .farthest import farthest_points
from .working import Resolution, WorkingSample, is_even, working_sample
