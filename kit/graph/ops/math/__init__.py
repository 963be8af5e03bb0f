"""Ops that compute elements."""
