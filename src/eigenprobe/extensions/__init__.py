"""Values of a basis at new points, each row on its own: by a kernel, a neighbourhood, a network."""

from .functions import KernelExtension, NeighbourhoodExtension, NetworkExtension
