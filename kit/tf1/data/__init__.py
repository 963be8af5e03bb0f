"""`tf.data`: datasets, and iterators that give their elements to a graph."""

from __future__ import annotations

from kit.tf1.data import experimental as experimental
from kit.tf1.not_offered import refusing
from kit.tf1.public import offer

offer(
    __name__,
    "kit.tf1.data.dataset",
    "kit.tf1.data.iterator",
    without=["Formed", "begin_op", "form_of"],
)

__getattr__ = refusing("data")
