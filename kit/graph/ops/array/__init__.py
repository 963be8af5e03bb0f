"""Ops that move, select and make elements."""
