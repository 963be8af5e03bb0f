"""The digits that programs of tutorials read: MNIST's files, or those there are."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from kit import tf1 as tf
from kit.demo.digits import load_images
from kit.errors import InvalidArgumentError, NotFoundError
from kit.tf1.examples.tutorials.mnist import input_data, mnist
from kit.tf1.examples.tutorials.mnist.input_data import DataSet
from tests.cases import for_each

NAMES = {"train": 30, "t10k": 10}


def write(path: Path, array: np.ndarray[Any, Any]) -> None:
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files as MNIST's, in which pixel 0 of each image is its number."""
    for name, n in NAMES.items():
        images = np.zeros((n, 28, 28))
        images[:, 0, 0] = np.arange(n)
        write(tmp_path / f"{name}-images-idx3-ubyte.gz", images)
        write(tmp_path / f"{name}-labels-idx1-ubyte.gz", np.arange(n) % 10)
    return tmp_path


def numbers(images: Any) -> list[int]:
    return [round(float(image[0]) * 255) for image in images]


def test_files_are_read_in_three_parts(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mnist = input_data.read_data_sets(folder, validation_size=5)

    parts = [mnist.train, mnist.validation, mnist.test]
    assert [part.num_examples for part in parts] == [25, 5, 10]
    assert numbers(mnist.validation.images) == [0, 1, 2, 3, 4]
    assert numbers(mnist.train.images) == list(range(5, 30))
    assert mnist.train.labels.tolist() == [n % 10 for n in range(5, 30)]
    assert mnist.train.images.shape == (25, 784)
    assert mnist.train.images.dtype == np.float32
    assert not caplog.records


def test_classes_can_be_rows_and_images_squares_of_bytes(folder: Path) -> None:
    train = input_data.read_data_sets(
        str(folder), one_hot=True, dtype=tf.uint8, reshape=False, validation_size=0
    ).train

    assert train.images.shape == (30, 28, 28, 1)
    assert train.images.dtype == np.uint8
    assert train.labels.shape == (30, 10)
    assert train.labels.argmax(1).tolist() == [n % 10 for n in range(30)]
    assert train.labels.sum() == 30


def test_each_epoch_gives_every_image_once_in_an_order_of_its_own(
    folder: Path,
) -> None:
    train = input_data.read_data_sets(folder, validation_size=0).train

    batches = [train.next_batch(12) for _ in range(5)]

    seen = [number for images, _ in batches for number in numbers(images)]
    assert sorted(seen[:30]) == sorted(seen[30:]) == list(range(30))
    assert seen[:30] != seen[30:]
    assert [item % 10 for item in seen] == [int(x) for _, y in batches for x in y]
    assert train.epochs_completed == 1
    train.next_batch(1)
    assert train.epochs_completed == 2


def test_order_is_kept_without_shuffling_and_repeats_with_a_seed(folder: Path) -> None:
    plain = input_data.read_data_sets(folder, validation_size=0).train
    seeded = [
        input_data.read_data_sets(folder, validation_size=0, seed=3).train
        for _ in range(2)
    ]

    result = [numbers(plain.next_batch(20, shuffle=False)[0]) for _ in range(2)]
    first, second = (numbers(item.next_batch(30)[0]) for item in seeded)

    assert result == [list(range(20)), [*range(20, 30), *range(10)]]
    assert first == second


@pytest.mark.parametrize("size", [-1, 31])
def test_validation_is_not_larger_than_the_data(size: int, folder: Path) -> None:
    with pytest.raises(ValueError, match="30"):
        input_data.read_data_sets(folder, validation_size=size)


@for_each(
    "contents",
    [
        b"no gzip",
        gzip.compress(b""),
        gzip.compress(b"\0\0\x08\x03" + bytes(12) + b"1"),
        gzip.compress(b"\0\0\x08"),
        gzip.compress(struct.pack(">HBBI", 0, 8, 1, 5) + bytes(5)),
        gzip.compress(bytes(100))[:20],
    ],
)
def test_file_that_holds_something_else_is_refused_by_name(
    contents: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("mnist")
    for name in NAMES:
        write(folder / f"{name}-images-idx3-ubyte.gz", np.zeros((3, 28, 28)))
        write(folder / f"{name}-labels-idx1-ubyte.gz", np.zeros(3))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(contents)

    with pytest.raises(InvalidArgumentError, match="train-images-idx3"):
        input_data.read_data_sets(folder, validation_size=0)


@pytest.mark.slow
def test_without_the_files_a_warning_names_them_and_scikit_learns_digits_are_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from sklearn.datasets import load_digits  # it takes a second

    mnist = input_data.read_data_sets(tmp_path / "nowhere", one_hot=True)

    assert "train-images-idx3-ubyte.gz" in caplog.text
    assert "1,797 digits" in caplog.text
    sizes = [item.num_examples for item in mnist]
    assert (sum(sizes), sizes[2]) == (1797, 359)
    assert sizes[1] / (sizes[0] + sizes[1]) == pytest.approx(5000 / 60_000, rel=0.02)
    original = load_digits()
    assert np.array_equal(load_images()[0], original.data.astype(np.float32) / 16)
    assert np.array_equal(load_images()[1], original.target)
    small, large = original.data[4].reshape(8, 8) / 16, mnist.test.images[0]
    assert mnist.test.labels[0].argmax() == original.target[4]
    assert large.shape == (784,)
    resized = Image.fromarray(small.astype(np.float32)).resize(
        (28, 28), Image.Resampling.BILINEAR
    )
    assert large.reshape(28, 28) == pytest.approx(np.asarray(resized), abs=0.003)


def test_fake_data_are_the_same_image_again_and_again() -> None:
    mnist = input_data.read_data_sets("nowhere", fake_data=True, one_hot=True)

    images, labels = mnist.train.next_batch(2)

    assert mnist.train.num_examples == 10_000
    assert images == [[1] * 784] * 2
    assert labels == [[1, *[0] * 9]] * 2


def test_part_without_images_has_no_batch(folder: Path) -> None:
    mnist = input_data.read_data_sets(folder, validation_size=0)

    with pytest.raises(InvalidArgumentError, match="validation_size"):
        mnist.validation.next_batch(1)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="uint8 or float32"):
        DataSet(np.zeros((1, 2, 2, 1), np.uint8), np.zeros(1), dtype="float64")


def test_digits_of_contrib_learn_are_read_by_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)

    mnist = tf.contrib.learn.datasets.load_dataset("mnist")

    assert mnist.train.images.shape[1] == 784
    assert "MNIST-data has no train-images" in caplog.text
    with pytest.raises(NotFoundError, match="'mnist'"):
        tf.contrib.learn.datasets.load_dataset("iris")


def test_the_tutorials_network_trains_by_the_gradient_of_its_loss(session: Any) -> None:
    labels = np.array([0, 0, 0, 1, 2])
    images = tf.placeholder(tf.float32, [None, mnist.IMAGE_PIXELS])
    wanted = tf.placeholder(tf.int32, [None])
    logits = mnist.inference(images, 4, 3)
    loss, right = mnist.loss(logits, wanted), mnist.evaluation(logits, wanted)
    step = mnist.training(loss, 0.1)
    feeds = {images: np.ones([5, 784]), wanted: labels}
    session.run(tf.global_variables_initializer())
    for trainable_variable in tf.trainable_variables():
        trainable_variable.load(np.zeros(trainable_variable.shape.as_list()), session)

    first = session.run(loss, feeds)
    session.run(step, feeds)
    *_, biases, count = session.run(tf.global_variables())
    n_right = session.run(right, feeds)

    assert first == pytest.approx(np.log(mnist.NUM_CLASSES))
    # Of zeros the softmax is uniform, and all that moves are the last biases.
    assert biases == pytest.approx(0.1 * (np.eye(10)[labels].mean(0) - 0.1), abs=1e-7)
    assert (count, n_right) == (1, 3)


def test_keras_has_the_digits_of_its_folder_as_bytes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder / "home"
    (home / ".keras").mkdir(parents=True)
    (home / ".keras" / "datasets").symlink_to(folder)
    monkeypatch.setenv("HOME", str(home))

    train, test = tf.keras.datasets.mnist.load_data()

    assert train[0].shape == (30, 28, 28)
    assert [tensor.dtype for tensor in (*train, *test)] == [np.uint8] * 4
    assert train[0][:, 0, 0].tolist() == list(range(30))
    assert test[1].tolist() == list(range(10))

    arrays: Any = {"x_train": np.ones(3), "y_train": np.zeros(2)}
    np.savez(folder / "mnist.npz", **arrays, x_test=np.ones(4), y_test=np.zeros(5))
    (x, y), (others, their) = tf.keras.datasets.mnist.load_data()
    assert [len(item) for item in (x, y, others, their)] == [3, 2, 4, 5]
