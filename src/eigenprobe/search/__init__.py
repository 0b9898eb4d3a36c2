"""Nearest neighbours, cells, memory order, sums over segments."""
