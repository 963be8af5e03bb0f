"""Groups of tasks: collectives and messages in cells and plain functions."""
