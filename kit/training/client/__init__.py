"""The notebook's side of a training: the run, what it has heard, and its commands."""
