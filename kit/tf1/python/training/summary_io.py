"""`tensorflow.python.training.summary_io`: the writers of `tf.summary`."""

from kit.tf1.summary import FileWriter as SummaryWriter
from kit.tf1.summary import FileWriterCache as SummaryWriterCache

__all__ = ["SummaryWriter", "SummaryWriterCache"]
