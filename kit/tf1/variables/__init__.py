"""Variables and variable scopes, as in TensorFlow 1.x."""
