"""Monitored sessions, as in TensorFlow 1.x."""
