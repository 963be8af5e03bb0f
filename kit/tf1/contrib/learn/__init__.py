"""`tf.contrib.learn`: the digits of the tutorials, under the name they had there."""

from __future__ import annotations

from kit.tf1.contrib.learn import datasets as datasets
from kit.tf1.contrib.learn import python as python
from kit.tf1.not_offered import refusing


class ModeKeys:
    """What a model is made for."""

    TRAIN, EVAL, INFER = "train", "eval", "infer"


__getattr__ = refusing("contrib.learn")
