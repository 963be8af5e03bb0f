"""`tf.contrib.learn.datasets`: of its data there are the handwritten digits."""

from __future__ import annotations

from typing import Any

from kit.errors import NotFoundError
from kit.tf1.examples.tutorials.mnist import input_data as mnist
from kit.tf1.python.submodules import importable

importable(__name__, ["mnist"])


def load_dataset(
    name: str, size: str = "small", test_with_fake_data: bool = False
) -> Any:
    """Return what `mnist.read_data_sets` does for the name `mnist`.

    Raises `NotFoundError` for another name. The sizes are those of other data.
    """
    if name != "mnist":
        raise NotFoundError(f"Name of dataset is not found: {name}; there is 'mnist'.")
    return mnist.read_data_sets("MNIST-data")
