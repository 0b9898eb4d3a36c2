"""Random smooth functions, their covariance, and how well a basis reconstructs them."""

from .covariance import DENSE_LIMIT, Covariance, visible_scales
from .objective import Objective, Projection, nested_basis
from .probes import Distribution, Probes, seed_signal
from .scale import learn_scale
