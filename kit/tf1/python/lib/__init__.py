"""`tensorflow.python.lib`: files."""
