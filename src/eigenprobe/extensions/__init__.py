"""Values of a basis at new points, each row on its own; a file names its kind, and `register` finds
the class again.
"""

from . import context, network
from .kernel import KernelExtension, average
from .neighbourhood import NeighbourhoodExtension
