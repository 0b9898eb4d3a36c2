"""Random smooth functions, their covariance, and how well a basis reconstructs them."""

from .probes import Distribution, Probes, seed_signal, smooth_noise

__all__ = ["Distribution", "Probes", "seed_signal", "smooth_noise"]
