"""Graph -> smoother: a symmetric averaging operator with a mass.

    row, symmetric   one Gaussian for the whole cloud                         `gaussian`
    adaptive         cells of surfaces, balanced weights of curves, solids    `balanced`
                     a Gaussian whose width follows the sampling above        `variable`
    neighbourhood    shared neighbours, for tables of embeddings              `neighbourhood`

`prepared` chooses among them. Every function is O(n k): sparse CSR, float64 or float32, on the device of the points.
"""

from .balanced import balanced_smoother
from .neighbourhood import neighbourhood_smoother
from .prepared import BALANCED_DIMENSIONS, KINDS, NEIGHBOURS, Kind, build_smoother
from .smoother import ROW_STEPS, RowSmoother, Smoother, laplacian_smoother, symmetric_matrix
from .variable import variable_smoother
