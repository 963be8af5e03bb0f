"""Tensors, their types and shapes, as in TensorFlow 1.x."""
