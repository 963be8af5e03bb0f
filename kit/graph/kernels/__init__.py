"""Numeric functions of the harder ops, on numpy, cupy or similar libraries.

A kernel takes the array module `xp` first, then arrays of that module, and returns new
arrays of it. It does not know about graphs. Floats of 16, 32 and 64 bits keep their
dtype; 16 bits are computed in 32.
"""
