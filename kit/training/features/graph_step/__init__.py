"""A step given as a loss in a graph."""
