"""Which points to work on, and which of their neighbours are real: the cloud made ready,
inspection, outliers, the sample, short-cut edges; farthest points.
"""
