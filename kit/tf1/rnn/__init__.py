"""Recurrent networks: cells, and how they are unrolled over time."""
