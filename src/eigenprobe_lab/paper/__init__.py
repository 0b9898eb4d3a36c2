"""The paper's experiments, and what only they need. The library proper imports nothing from here.

reproduction           the experiments by the paper's way, by ours or by both; three columns
published              the numbers the paper prints
toy1d                  five functions on an interval, by either loss
overfit                one network per shape, our way;             single: the paper's
generalisation         the pretrained model on unseen shapes, with controls, our way;        amortised: the paper's
images                 clusters in embeddings of image features: protocol (subsets, scores), peers (other methods)
images_recipe          the paper's own network on image features, by recipe
extract                images to features, by frozen encoders; datasets: image data sets as their authors pack them
"""

from __future__ import annotations
