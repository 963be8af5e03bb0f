"""`tf.keras.datasets`: the digits of MNIST."""

from __future__ import annotations

from kit.tf1.examples.tutorials.mnist import input_data
from kit.tf1.not_offered import refusing

mnist = input_data

__getattr__ = refusing("keras.datasets")
