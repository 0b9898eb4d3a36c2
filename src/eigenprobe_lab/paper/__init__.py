"""The paper's experiments its own way, and what only they need.

overfit, generalisation   one network per shape; one network for all shapes
toy1d                     five functions on an interval, by either loss
images, peers             clusters in embeddings of image features: subsets, scores, tables; other methods
images_recipe             the paper's own network on image features, by recipe
extract, datasets         images to features by frozen encoders; image data sets as their authors pack them
published                 the numbers the paper prints
reproduction              one table of every experiment, by its own way and by ours (`evaluation.fitted`, `.pretrained`)
"""
