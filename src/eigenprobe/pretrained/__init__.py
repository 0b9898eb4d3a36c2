"""One model for all shapes: a forward pass instead of a solve, its weights and its training."""
