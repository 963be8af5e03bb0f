"""The board of a training: what it knows, what it shows, and its controls."""
