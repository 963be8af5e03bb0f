"""`tensorflow.python.pywrap_tensorflow`: of it, the reader of checkpoints."""

from kit.tf1.train import NewCheckpointReader as NewCheckpointReader

__all__ = ["NewCheckpointReader"]
