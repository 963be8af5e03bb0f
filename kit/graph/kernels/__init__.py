"""Numeric functions behind the ops that need thought, on numpy, cupy or their like.

A kernel takes the array module `xp` first, then arrays of that module, and returns new
arrays of it. It knows no graph. Floats of 16, 32 and 64 bits come back in the dtype in
which they came; 16 bits are computed in 32.
"""
