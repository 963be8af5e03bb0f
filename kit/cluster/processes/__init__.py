"""The processes of a cluster: how they start, and how all of them end."""
