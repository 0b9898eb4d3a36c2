"""The paper's experiments, and what only they need. The library proper imports nothing from here.

published              the numbers the paper prints
toy1d                  five functions on an interval
overfit                one network per shape
generalisation         the pretrained model on unseen shapes, with controls
images                 clusters in embeddings of image features: protocol (subsets, scores), peers (other methods)
images_recipe          the paper's own network on image features, by recipe
extract                images to features: datasets (image data sets as their authors pack them), vision (encoders)
"""

from __future__ import annotations
