"""The steps of a recorded training again: all its members in one thread.

`recomputation` carries them out; each way to make a step that is not a plain exchange
of gradients has a file of its own.
"""
