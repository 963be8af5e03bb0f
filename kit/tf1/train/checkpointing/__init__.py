"""Savers and checkpoint files, as in TensorFlow 1.x."""
