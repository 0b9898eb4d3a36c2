"""One model for all shapes, a forward pass instead of a solve, and its weights."""
