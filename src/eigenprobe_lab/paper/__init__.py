"""The paper's experiments its own way, and what only they need.

overfit, generalisation   one network per shape; one network for all shapes
toy1d                     five functions on an interval, by either loss
images                    clusters in embeddings of image features: protocol (subsets, scores), peers (other methods)
images_recipe             the paper's own network on image features, by recipe
extract, datasets         images to features by frozen encoders; image data sets as their authors pack them
published                 the numbers the paper prints
reproduction              every experiment the paper's way, ours (`evaluation.fitted`, `evaluation.pretrained`) or both
"""

from __future__ import annotations
