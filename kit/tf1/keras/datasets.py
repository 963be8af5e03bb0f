"""`tf.keras.datasets`: the digits of MNIST."""

from __future__ import annotations

from typing import Any

from kit.tf1.examples.tutorials.mnist import input_data
from kit.tf1.not_offered import refuse

mnist = input_data


def __getattr__(name: str) -> Any:
    refuse("keras.datasets", name)
