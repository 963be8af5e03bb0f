"""Sessions, servers and their messages, as in TensorFlow 1.x."""
