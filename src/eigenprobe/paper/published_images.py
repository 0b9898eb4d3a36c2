"""What the paper prints of its image experiments: hyper-parameters, and the scores of its own method.

SETTINGS   (data set, extractor) -> width, heads, neighbours, sigma, smoothing steps
SCORES     (data set, extractor, k) -> means over 32 runs of NMI, ARI, completeness, AMI, homogeneity, V-measure, FMI
"""

from __future__ import annotations

from ..evaluation.clustering import METRICS

SETTINGS = {
    ("caltech256", "clip"): (256, 8, 10, 0.04, 20),
    ("caltech256", "dinov2"): (128, 8, 15, 0.15, 40),
    ("cifar100", "clip"): (256, 8, 5, 0.04, 20),
    ("cifar100", "dinov2"): (128, 4, 30, 0.20, 30),
    ("imagenette", "clip"): (256, 8, 20, 0.08, 20),
    ("imagenette", "dinov2"): (128, 4, 30, 0.10, 30),
    ("stl10", "clip"): (256, 8, 35, 0.08, 20),
    ("stl10", "dinov2"): (128, 4, 20, 0.10, 20),
}
SCORES = {
    ("stl10", "dinov2", 2): (0.790, 0.712, 0.752, 0.787, 0.834, 0.790, 0.775),
    ("stl10", "dinov2", 5): (0.859, 0.812, 0.823, 0.858, 0.902, 0.859, 0.856),
    ("stl10", "dinov2", 10): (0.892, 0.863, 0.862, 0.891, 0.927, 0.892, 0.896),
    ("stl10", "clip", 2): (0.691, 0.525, 0.653, 0.687, 0.736, 0.691, 0.622),
    ("stl10", "clip", 5): (0.820, 0.741, 0.795, 0.818, 0.850, 0.820, 0.797),
    ("stl10", "clip", 10): (0.863, 0.818, 0.845, 0.861, 0.884, 0.863, 0.858),
    ("imagenette", "dinov2", 2): (0.684, 0.602, 0.655, 0.680, 0.716, 0.684, 0.667),
    ("imagenette", "dinov2", 5): (0.842, 0.844, 0.818, 0.840, 0.868, 0.842, 0.872),
    ("imagenette", "dinov2", 10): (0.858, 0.856, 0.832, 0.857, 0.888, 0.858, 0.881),
    ("imagenette", "clip", 2): (0.746, 0.680, 0.712, 0.743, 0.784, 0.746, 0.733),
    ("imagenette", "clip", 5): (0.882, 0.874, 0.858, 0.880, 0.908, 0.882, 0.896),
    ("imagenette", "clip", 10): (0.915, 0.917, 0.895, 0.914, 0.937, 0.915, 0.932),
    ("caltech256", "dinov2", 2): (0.611, 0.078, 0.594, 0.196, 0.629, 0.611, 0.092),
    ("caltech256", "dinov2", 5): (0.714, 0.246, 0.696, 0.411, 0.733, 0.714, 0.263),
    ("caltech256", "dinov2", 10): (0.759, 0.322, 0.743, 0.508, 0.775, 0.759, 0.339),
    ("caltech256", "clip", 2): (0.596, 0.069, 0.578, 0.159, 0.615, 0.596, 0.083),
    ("caltech256", "clip", 5): (0.685, 0.226, 0.666, 0.348, 0.704, 0.685, 0.243),
    ("caltech256", "clip", 10): (0.734, 0.309, 0.718, 0.456, 0.750, 0.734, 0.325),
    ("cifar100", "dinov2", 2): (0.568, 0.164, 0.576, 0.412, 0.561, 0.568, 0.191),
    ("cifar100", "dinov2", 5): (0.583, 0.176, 0.602, 0.442, 0.565, 0.583, 0.208),
    ("cifar100", "dinov2", 10): (0.613, 0.214, 0.622, 0.477, 0.605, 0.613, 0.238),
    ("cifar100", "clip", 2): (0.499, 0.111, 0.488, 0.300, 0.511, 0.499, 0.132),
    ("cifar100", "clip", 5): (0.555, 0.159, 0.552, 0.388, 0.557, 0.555, 0.180),
    ("cifar100", "clip", 10): (0.566, 0.173, 0.577, 0.415, 0.555, 0.566, 0.200),
}


def published_scores(dataset: str, extractor: str, k: int) -> dict[str, float]:
    """Scores by name; empty where the paper has none."""
    return dict(zip(METRICS, SCORES.get((dataset, extractor, k), ()), strict=False))
