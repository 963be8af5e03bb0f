"""The master: places and partitions a graph, and coordinates each run."""
