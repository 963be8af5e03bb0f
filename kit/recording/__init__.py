"""A training recorded to a folder: shown, computed again, compared, without a cluster.

`kit.train(..., record=folder)` writes (`recorder`, `folder`, `parts`), `kit.load_run`
reads (`content`, `loaded`), `kit.replay` computes again (`recomputing`, `replay`),
and `kit.diff` compares (`difference`). Nothing of a recording is executed, but for what
was stored in it, a step function for example, when the caller says that it can be
trusted.
"""
