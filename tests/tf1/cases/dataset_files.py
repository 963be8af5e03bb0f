"""Datasets of files, and of datasets that a function makes of each element."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import makes_case, tf

TEXT = b"head\nx,1\r\ny,2\n\nlast"


def elements(dataset: Any, feeds: Any = None) -> list[Any]:
    """Return the elements, then the name of the error that ends them."""
    iterator = tf.data.make_initializable_iterator(dataset)
    following = iterator.get_next()
    made: list[Any] = []
    with tf.Session() as session:
        session.run(iterator.initializer, feeds)
        while not made or not isinstance(made[-1], str):
            result = attempt(session.run, following)
            made.append(result if isinstance(result, str) else plain(result))
    return made


def plain(value: Any) -> Any:
    return list(map(plain, value)) if isinstance(value, tuple) else value


def text_files(folder: str) -> list[str]:
    (Path(folder) / "a").write_bytes(TEXT)
    (Path(folder) / "b").write_bytes(b"other\n")
    return [str(Path(folder) / name) for name in ("a", "b")]


def case_lines_of_one_file(folder: str) -> Any:
    dataset = tf.data.TextLineDataset(text_files(folder)[0])
    shapes = tf.data.get_output_shapes(dataset).as_list()
    kinds = [shapes, tf.data.get_output_types(dataset).name]
    return [kinds, elements(dataset)]


def case_lines_of_two_files(folder: str) -> Any:
    return elements(tf.data.TextLineDataset(text_files(folder)).skip(1))


def case_lines_of_files_that_are_fed(folder: str) -> Any:
    names = tf.placeholder(tf.string, [None])
    dataset = tf.data.TextLineDataset(names).batch(2)
    return elements(dataset, {names: text_files(folder)})


def case_file_that_is_missing(folder: str) -> Any:
    return elements(tf.data.TextLineDataset(str(Path(folder) / "none")))


def record_files(folder: str, options: Any = None) -> list[str]:
    names = [str(Path(folder) / name) for name in ("a", "b")]
    for name, values in zip(names, ([b"one", b""], [b"two"])):  # noqa: B905
        with tf.python_io.TFRecordWriter(name, options) as writer:
            for value in values:
                writer.write(value)
    return names


def case_records(folder: str) -> Any:
    return elements(tf.data.TFRecordDataset(record_files(folder)))


def case_records_that_are_compressed(folder: str) -> Any:
    kinds = tf.python_io.TFRecordCompressionType
    options = tf.python_io.TFRecordOptions(kinds.GZIP)
    names = record_files(folder, options)
    return elements(tf.data.TFRecordDataset(names, compression_type="GZIP"))


def pieces(folder: str) -> str:
    path = Path(folder) / "pieces"
    path.write_bytes(b"head" + bytes(range(12)) + b"end")
    return str(path)


def case_pieces_of_one_length(folder: str) -> Any:
    make = tf.data.FixedLengthRecordDataset
    names = [pieces(folder)] * 2
    dataset = make(names, 4, header_bytes=4, footer_bytes=3)
    return elements(dataset.map(lambda item: tf.decode_raw(item, tf.uint8)))


def case_pieces_that_are_not_whole(folder: str) -> Any:
    return elements(tf.data.FixedLengthRecordDataset(pieces(folder), 5, 4, 3))


def case_header_of_each_file_is_left_out(folder: str) -> Any:
    names = tf.data.Dataset.from_tensor_slices(text_files(folder))
    dataset = names.flat_map(
        lambda name: tf.data.TextLineDataset(name).skip(1).map(lambda line: line + "!")
    )
    return elements(dataset)


def case_flattened_in_a_one_shot_iterator(session: Any) -> Any:
    scale = tf.constant(10, tf.int64)
    dataset = tf.data.Dataset.range(3).flat_map(
        lambda n: tf.data.Dataset.range(n).map(lambda m: n * scale + m)
    )
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    return [attempt(session.run, following) for _ in range(4)]


def case_flattened_with_what_is_fed() -> Any:
    count = tf.placeholder(tf.int64, [])
    dataset = tf.data.Dataset.range(3).flat_map(
        lambda n: tf.data.Dataset.from_tensors((n, count)).repeat(count)
    )
    return elements(dataset, {count: 2})


def case_flattened_to_the_same_each_time() -> Any:
    dataset = tf.data.Dataset.range(2).flat_map(lambda _: tf.data.Dataset.range(2))
    return elements(dataset.repeat(2))


def case_flattened_rows_of_a_batch() -> Any:
    slices = tf.data.Dataset.from_tensor_slices
    dataset = slices(([[1, 2], [3, 4]], ["a", "b"])).flat_map(
        lambda row, name: tf.data.Dataset.zip(
            (slices(row), tf.data.Dataset.from_tensors(name).repeat())
        )
    )
    return elements(dataset)


def case_function_that_makes_no_dataset() -> Any:
    return tf.data.Dataset.range(3).flat_map(lambda n: n)


def case_as_many_at_a_time_as_processors() -> Any:
    numbers = tf.data.Dataset.range
    made = elements(numbers(3).interleave(numbers, cycle_length=-1))
    return [sorted(map(int, made[:-1])), made[-1]]


@makes_case
def turns(cycle: int, block: int, sizes: list[int]) -> Any:
    """Return a case: the order in which elements of several datasets come."""
    dataset = tf.data.Dataset.from_tensor_slices(sizes).interleave(
        lambda n: tf.data.Dataset.from_tensors(n).repeat(tf.cast(n, tf.int64)),
        cycle_length=cycle,
        block_length=block,
    )
    return elements(dataset)


CASES = {
    f"turns_{cycle}_{block}_{number}": turns(cycle, block, sizes)
    for number, sizes in enumerate(([1, 2, 3, 4], [4, 0, 3, 0, 5], [0, 0]))
    for cycle, block in ((1, 1), (2, 1), (2, 2), (3, 2), (4, 3), (0, 1), (1, 0))
}
