"""Graphs, operations and collections, as in TensorFlow 1.x."""
