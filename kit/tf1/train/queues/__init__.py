"""Coordinators and queue runners, as in TensorFlow 1.x."""
