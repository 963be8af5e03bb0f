"""Steps made of the first R of N gradients."""
