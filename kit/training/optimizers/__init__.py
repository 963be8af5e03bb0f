"""Optimizers: rules on flat arrays, and on a graph."""
