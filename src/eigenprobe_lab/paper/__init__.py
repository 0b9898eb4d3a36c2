"""The paper's experiments its own way, and what only they need.

overfit, released   one network per shape: as the text has it, as the released configuration has it
generalisation      one network for all shapes
meshes, variants    real meshes to train it on; networks that differ in one thing
toy1d               five functions on an interval, by either loss
images              clusters in embeddings of image features: subsets, scores, other methods
images_recipe       the paper's own network on image features, by recipe
extract, datasets   images to features by frozen encoders; image data sets as they are packed
published           the numbers the paper prints
reproduction        one table of every experiment, by its own way and by ours
"""
