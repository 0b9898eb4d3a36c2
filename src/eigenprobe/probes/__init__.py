"""Random smooth functions, their covariance, and how well a basis reconstructs them."""

from .covariance import DENSE_LIMIT, Covariance, DenseCovariance, visible_scales
from .objective import Objective, Projection, first_mass, nested_basis, prefix_errors
from .probes import Distribution, Probes, seed_signal
