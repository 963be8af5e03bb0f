"""A worker's step: parameters in, the user's function, gradients out."""
