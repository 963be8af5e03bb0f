"""Handwritten digits for programs that read MNIST.

from kit.tf1.examples.tutorials.mnist import input_data
mnist = input_data.read_data_sets("MNIST_data", one_hot=True)
images, labels = mnist.train.next_batch(100)

Nothing is downloaded. Where the four files of MNIST are not, the digits of scikit-learn
are taken, which are far fewer.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kit.demo.digits import load_images
from kit.errors import InvalidArgumentError
from kit.regular_file import open_regular
from kit.tf1 import logging
from kit.tf1.ops.random import get_seed
from kit.tf1.tensor.dtypes import as_dtype

Array = npt.NDArray[Any]

_FILES: Final = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_SIDE, _CLASSES = 28, 10
_WHOLE = 60_000  # images for training and validation in the four files
_MOST_BYTES = 1 << 30  # of a file, unpacked


class DataSet:
    """Images and labels, in batches; each epoch is shuffled anew."""

    def __init__(
        self,
        images: Array,
        labels: Array,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = "float32",
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """Take images of bytes [n, rows, columns, 1]; as float32 they are 0 to 1.

        `reshape` makes each a row of numbers. With `fake_data` each batch is the same
        image again and again. Raises `TypeError` for another dtype than uint8 and
        float32.
        """
        name = as_dtype(dtype).base_dtype.name
        if name not in ("uint8", "float32"):
            raise TypeError(
                f"Invalid image dtype {name}, expected uint8 or float32; cast the "
                f"batches to it."
            )
        if reshape:
            images = images.reshape(len(images), math.prod(images.shape[1:]))
        if name == "float32":
            images = images.astype(np.float32) / np.float32(255)
        self.images, self.labels = images, labels
        self._is_fake, self._is_one_hot = fake_data, one_hot
        first, second = get_seed(seed)
        chosen = first if seed is None else second
        self._dice = np.random.RandomState(chosen and chosen % 2**32)
        self.epochs_completed = self._next = 0

    @property
    def num_examples(self) -> int:
        """How many there are."""
        return _CLASSES * 1000 if self._is_fake else len(self.images)

    def next_batch(
        self, batch_size: int, fake_data: bool = False, shuffle: bool = True
    ) -> tuple[Any, Any]:
        """Return the next images and labels; a batch may reach into the next epoch."""
        if fake_data or self._is_fake:
            label = [1] + [0] * (_CLASSES - 1) if self._is_one_hot else 0
            return [[1] * _SIDE**2] * batch_size, [label] * batch_size
        if not len(self.images):
            raise InvalidArgumentError(
                "there are no images; read them with a validation_size above 0."
            )
        if self._next == self.epochs_completed == 0 and shuffle:
            self._shuffle()
        images, labels, missing = [], [], batch_size
        while missing > len(self.images) - self._next:
            images.append(self.images[self._next :])
            labels.append(self.labels[self._next :])
            missing -= len(images[-1])
            self.epochs_completed += 1
            self._next = 0
            if shuffle:
                self._shuffle()
        end = self._next + missing
        images.append(self.images[self._next : end])
        labels.append(self.labels[self._next : end])
        self._next = end
        return np.concatenate(images), np.concatenate(labels)

    def _shuffle(self) -> None:
        order = self._dice.permutation(len(self.images))
        self.images, self.labels = self.images[order], self.labels[order]


class Datasets(NamedTuple):
    """The three parts."""

    train: DataSet
    validation: DataSet
    test: DataSet


def read_data_sets(
    train_dir: Any,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = "float32",
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = "",
) -> Datasets:
    """Return the digits in a folder, in three parts.

    Where not all four files are there, a warning says so, and they are the 1,797 digits
    of scikit-learn, scaled to 28 x 28 pixels, of which as large a part is for
    validation. `source_url` changes nothing: nothing is downloaded. Raises `ValueError`
    for a `validation_size` that is larger than the data, `InvalidArgumentError` for
    files that hold something else, and `NotFoundError` without scikit-learn.
    """
    if fake_data:
        no_images, no_labels = np.zeros((0, _SIDE, _SIDE, 1), np.uint8), np.zeros(0)
        parts = [(no_images, no_labels)] * 3
    else:
        train, test, most = _arrays(Path(train_dir))
        if not 0 <= validation_size <= most:
            raise ValueError(
                f"Validation size should be between 0 and {most}. Received: "
                f"{validation_size}."
            )
        n = -(-validation_size * len(train[0]) // most)
        parts = [(train[0][n:], train[1][n:]), (train[0][:n], train[1][:n]), test]
    return Datasets(
        *(
            DataSet(
                images,
                _one_hot(labels) if one_hot else labels,
                fake_data,
                one_hot,
                dtype,
                reshape,
                seed,
            )
            for images, labels in parts
        )
    )


Part = tuple[Array, Array]


def load_data(path: str = "mnist.npz") -> tuple[Part, Part]:
    """Return images and labels, as bytes, for training and for tests.

    They are in `~/.keras/datasets`, where Keras keeps them, as this file or as MNIST's
    own four; nothing is downloaded, see `read_data_sets`.
    """
    folder = Path.home() / ".keras" / "datasets"
    if (folder / path).is_file():
        with np.load(folder / path) as arrays:
            train = arrays["x_train"], arrays["y_train"]
            return train, (arrays["x_test"], arrays["y_test"])
    (images, labels), (others, their_labels), _ = _arrays(folder)
    train = images[..., 0], labels.astype(np.uint8)
    return train, (others[..., 0], their_labels.astype(np.uint8))


def _arrays(folder: Path) -> tuple[Part, Part, int]:
    """Return images and labels for training and test, and the largest validation."""
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        logging.warning(
            "%s has no %s, and nothing is downloaded: these are the 1,797 digits of "
            "scikit-learn, scaled to 28 x 28 pixels. For MNIST itself, put its four "
            "files there.",
            folder,
            ", ".join(missing),
        )
        return *_small_digits(), _WHOLE
    arrays = [_unpacked(folder / name) for name in _FILES]
    for number in (0, 2):
        images, labels = arrays[number], arrays[number + 1]
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise InvalidArgumentError(
                f"{folder / _FILES[number]} holds {images.shape} and "
                f"{folder / _FILES[number + 1]} {labels.shape}; these are not images "
                f"and as many labels."
            )
    train, train_labels, test, test_labels = arrays
    return (train[..., None], train_labels), (test[..., None], test_labels), len(train)


def _unpacked(path: Path) -> Array:
    """Return the array in a file: two zeros, 8, the number of axes, sizes, bytes."""
    try:
        with open_regular(path) as file, gzip.open(file) as packed:
            contents = packed.read(_MOST_BYTES)
    except (OSError, EOFError, zlib.error) as exc:
        raise InvalidArgumentError(f"{path} cannot be read: {exc}.") from exc
    n_axes = contents[3] if contents[:3] == b"\0\0\x08" and len(contents) > 3 else 0
    shape = np.frombuffer(contents[4 : 4 + 4 * n_axes], ">u4").tolist()
    values = np.frombuffer(contents[4 + 4 * n_axes :], np.uint8)
    if not shape or len(shape) != n_axes or math.prod(shape) != len(values):
        raise InvalidArgumentError(
            f"{path} is not an MNIST file: it says {shape} and has {len(values)} bytes."
        )
    return values.reshape(shape)


def _small_digits() -> tuple[Part, Part]:
    """Return the digits of scikit-learn as images of bytes; every fifth is a test."""
    images, labels = load_images()
    # Between two pixels, values go over in a straight line.
    side = int(len(images[0]) ** 0.5)
    places = (np.arange(_SIDE) + 0.5) * side / _SIDE - 0.5
    grid = np.clip(places, 0, side - 1)[:, None] - np.arange(side)
    weights = np.maximum(0, 1 - np.abs(grid))
    larger = weights @ images.reshape(-1, side, side) @ weights.T
    pixels = np.rint(larger * 255).astype(np.uint8)[..., None]
    classes = labels.astype(np.uint8)
    is_test = np.arange(len(images)) % 5 == 4
    return (pixels[~is_test], classes[~is_test]), (pixels[is_test], classes[is_test])


def _one_hot(labels: Array) -> Array:
    """Return a row for each class: 1 where it is, else 0."""
    return np.eye(_CLASSES)[labels.astype(np.int64)]
