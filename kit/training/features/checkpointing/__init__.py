"""Checkpoints of a running training: when, by whom, and how to go on from one."""
