"""Cells and functions that run on the tasks."""
