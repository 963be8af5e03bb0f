"""The worker service: runs a task's part of a graph, and keeps its state."""
