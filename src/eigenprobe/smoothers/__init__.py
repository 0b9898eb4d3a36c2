"""Graph -> smoother: a symmetric averaging operator with a mass.

    row, symmetric   one Gaussian for the whole cloud                         `gaussian`
    adaptive         Voronoi cells of surfaces                                `cells`
                     balanced weights of curves and solids                    `balanced`
                     a Gaussian whose width follows the sampling above        `variable`
    neighbourhood    shared neighbours, for tables of embeddings              `neighbourhood`

`prepared` chooses among them. Every function is O(n k): sparse CSR, float64 or float32, on the
device of the points.
"""

from .neighbourhood import neighbourhood_smoother
from .prepared import (
    BALANCED_DIMENSIONS,
    KINDS,
    NEIGHBOURS,
    Kind,
    balanced_smoother,
    build_smoother,
)
from .smoother import ROW_STEPS, RowSmoother, Smoother, laplacian_smoother, symmetric_matrix
from .variable import variable_smoother
