"""Tools for testing what is built on this package; public, and stable as the rest.

Import what you need from its module: `kit.testing.streams` for connections without a
network. This file imports nothing, so that crash points can be used from any layer.
"""
