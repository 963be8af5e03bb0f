"""The coordinator of a training: membership, boundaries, failures."""
