"""Ops with state, and calls of the user's functions."""
