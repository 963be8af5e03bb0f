"""Optimizers, as in TensorFlow 1.x."""
