"""Modules that programs import from inside of the original: `tensorflow.python`."""
