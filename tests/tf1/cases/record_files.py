"""Files of training data: readers, examples, and what their bytes hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory as scratch
from typing import Any

from tests.tf1.attempts import attempt
from tests.tf1.look import Case, filled, makes_case, names_of, tf

EXAMPLES: list[dict[str, Any]] = [
    {"n": [1, -2], "x": [0.5], "s": [b"a", b""], "more": [7]},
    {"n": [3, 4], "x": [1.5], "s": [b"c", b"d"], "more": []},
    {"n": [5, 6], "x": [-1.0], "s": [b"e", b"f"], "more": [1, 2, 3]},
]


def example(values: dict[str, Any]) -> Any:
    train = tf.train
    lists = {
        int: lambda item: train.Feature(int64_list=train.Int64List(value=item)),
        float: lambda item: train.Feature(float_list=train.FloatList(value=item)),
        bytes: lambda item: train.Feature(bytes_list=train.BytesList(value=item)),
    }
    feature = {
        name: lists[type(row[0]) if row else int](row) for name, row in values.items()
    }
    return train.Example(features=train.Features(feature=feature))


def texts(*names: str) -> list[bytes]:
    """Return the records; with several names their order in the bytes is random."""
    return [
        example({name: row[name] for name in names or row}).SerializeToString()
        for row in EXAMPLES
    ]


def written(folder: str, options: Any = None) -> list[str]:
    """Write two files of records and return their names."""
    names = [str(Path(folder) / name) for name in ("a", "b")]
    for number, name in enumerate(names):
        with tf.python_io.TFRecordWriter(name, options) as writer:
            for record in texts("n")[: number + 2]:
                writer.write(record)
    return names


def lines(folder: str) -> list[str]:
    (Path(folder) / "a").write_bytes(b"head\nx,1\r\ny,2\n")
    (Path(folder) / "b").write_bytes(b"head\n\nlast")
    return [str(Path(folder) / name) for name in ("a", "b")]


@makes_case
def read(make: Callable[[Any], Any], files: Any = None) -> Any:
    """Return a case that tells all that a reader gives of two files."""
    with scratch() as folder:
        names = (files or lines)(folder)
        queue = tf.train.string_input_producer(names, 1, shuffle=False)
        reader = make(folder)
        fetch = reader.read(queue)
        state = [reader.num_records_produced(), reader.num_work_units_completed()]
        result: list[Any] = []
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            with filled(session):
                while not isinstance(result[-1] if result else None, str):
                    result.append(attempt(session.run, fetch))
                counts = session.run(state)
        return [relative(item, folder) for item in result], counts


def relative(item: Any, folder: str) -> Any:
    """Return keys and values without the name of the folder."""
    if isinstance(item, str):
        return item
    return [part.replace(folder.encode(), b"") for part in item]


def case_several_records_at_once() -> Any:
    with scratch() as folder:
        queue = tf.FIFOQueue(9, tf.string, shapes=[()])
        put = queue.enqueue_many([lines(folder)])
        keys, values = tf.TextLineReader().read_up_to(queue, 2)
        with tf.Session() as session:
            session.run([put])
            session.run(queue.close())
            result = [session.run(values).tolist() for _ in range(4)]
            return result, keys.shape.as_list(), attempt(session.run, values)


def case_a_reader_that_is_reset() -> Any:
    with scratch() as folder:
        queue = tf.FIFOQueue(9, tf.string, shapes=[()])
        reader = tf.TextLineReader()
        put, (_, value) = queue.enqueue_many([lines(folder)]), reader.read(queue)
        reset, count = reader.reset(), reader.num_records_produced()
        with tf.Session() as session:
            session.run([put])
            before = session.run(value)
            session.run(reset)
            return before, session.run(count), session.run([value, value])[0]


def case_a_file_that_is_not_there() -> Any:
    with scratch() as folder, tf.Session() as session:
        path = str(Path(folder) / "moon")
        queue = tf.FIFOQueue(9, tf.string, shapes=[()])
        _, value = tf.TextLineReader().read(queue)
        session.run(queue.enqueue(path))
        return attempt(session.run, value), attempt(session.run, tf.read_file(path))


def case_a_damaged_file() -> Any:
    result: list[Any] = []
    with scratch() as folder, tf.Session() as session:
        name = written(folder)[0]
        whole = Path(name).read_bytes()
        for content in (whole[:-1], b"\1" + whole[1:], whole[:5]):
            Path(name).write_bytes(content)
            queue = tf.FIFOQueue(9, tf.string, shapes=[()])
            _, value = tf.TFRecordReader().read(queue)
            session.run(queue.enqueue(name))
            session.run(queue.close())
            result.append(type(attempt(session.run, value)).__name__)
            try:
                result.append(len(list(tf.python_io.tf_record_iterator(name))))
            except tf.errors.DataLossError:
                result.append("DataLossError")
    return result


def case_records_are_read_back() -> Any:
    with scratch() as folder:
        kinds = tf.python_io.TFRecordCompressionType
        result = []
        for kind in (kinds.NONE, kinds.GZIP, kinds.ZLIB):
            options = tf.python_io.TFRecordOptions(kind)
            name = written(folder, options)[0]
            records = list(tf.python_io.tf_record_iterator(name, options))
            result.append(records == texts("n")[:2])
        return result


def case_the_bytes_of_a_file() -> Any:
    """The checksums, too, are those of the original."""
    with scratch() as folder:
        name = str(Path(folder) / "a")
        with tf.python_io.TFRecordWriter(name) as writer:
            writer.write(b"one")
            writer.write(bytes(range(256)))
        return Path(name).read_bytes()


def case_the_bytes_of_an_example() -> Any:
    return [
        example({name: values}).SerializeToString()
        for text in EXAMPLES
        for name, values in text.items()
    ]


def case_records_that_are_no_bytes() -> Any:
    with tf.python_io.TFRecordWriter(os.devnull) as writer:
        writer.write(1)


def case_an_example_is_filled() -> Any:
    made = tf.train.Example()
    made.features.feature["n"].int64_list.value.extend([1, 2])
    made.features.feature["n"].int64_list.value.append(3)
    return list(
        tf.train.Example.FromString(made.SerializeToString())
        .features.feature["n"]
        .int64_list.value
    )


def features() -> dict[str, Any]:
    return {
        "n": tf.FixedLenFeature([2], tf.int64),
        "x": tf.FixedLenFeature([], tf.float32),
        "s": tf.FixedLenFeature((2, 1), tf.string),
        "no": tf.FixedLenFeature([], tf.int64, default_value=9),
        "no2": tf.FixedLenFeature([2], tf.float32, default_value=[1.0, 2.0]),
        "more": tf.VarLenFeature(tf.int64),
    }


def parsed(tensors: dict[str, Any]) -> Any:
    shapes = {name: tensor.shape.as_list() for name, tensor in sorted(tensors.items())}
    with tf.Session() as session:
        values = session.run(tensors)
    more = values["more"]
    values["more"] = [more.indices, more.values, more.dense_shape]
    return shapes, [values[name] for name in sorted(values)]


def case_one_example() -> Any:
    return parsed(tf.parse_single_example(tf.constant(texts()[2]), features()))


def case_a_batch_of_examples() -> Any:
    return parsed(tf.parse_example(tf.constant(texts()), features()))


@makes_case
def wrong(session: Any, feature: Case, record: Any = None) -> Any:
    text = texts()[0] if record is None else record
    result = tf.parse_example([text], {"n": feature()})
    return attempt(session.run, result["n"])


@makes_case
def raw(session: Any, text: Any, kind: str, **how: Any) -> Any:
    result = tf.decode_raw(text, getattr(tf, kind), **how)
    return result.name, result.shape.as_list(), attempt(session.run, result)


@makes_case
def table(session: Any, records: Any, defaults: Case, **how: Any) -> Any:
    result = tf.decode_csv(records, defaults(), **how)
    return names_of(result), attempt(session.run, result)


def case_files_that_match() -> Any:
    with scratch() as folder:
        lines(folder)
        names = tf.train.match_filenames_once(str(Path(folder) / "*"))
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            result = sorted(session.run(names))
            text = session.run(tf.read_file(result[0]))
        return [Path(item.decode()).name for item in result], text, names.op.name


def case_features_through_a_whole_pipeline() -> Any:
    with scratch() as folder:
        names = written(folder)
        queue = tf.train.string_input_producer(names, num_epochs=1)
        _, record = tf.TFRecordReader().read(queue)
        result = tf.parse_single_example(
            record, {"n": tf.FixedLenFeature([2], "int64")}
        )
        rows = tf.train.shuffle_batch(
            [result["n"]], 2, 20, 4, num_threads=2, allow_smaller_final_batch=True
        )
        seen: list[Any] = []
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            with filled(session) as coord, suppress(tf.errors.OutOfRangeError):
                while not coord.should_stop():
                    seen += session.run(rows).tolist()
        return sorted(seen)


CASES: dict[str, Case] = {
    "lines": read(lambda _: tf.TextLineReader()),
    "lines_without_the_first": read(lambda _: tf.TextLineReader(skip_header_lines=1)),
    "whole_files": read(lambda _: tf.WholeFileReader()),
    "names_themselves": read(lambda _: tf.IdentityReader()),
    "pieces": read(lambda _: tf.FixedLengthRecordReader(4)),
    "pieces_between_head_and_foot": read(
        lambda _: tf.FixedLengthRecordReader(3, header_bytes=2, footer_bytes=1)
    ),
    "pieces_that_overlap": read(lambda _: tf.FixedLengthRecordReader(4, hop_bytes=3)),
    "records": read(lambda _: tf.TFRecordReader(), written),
    "a_feature_that_is_missing": wrong(lambda: tf.FixedLenFeature([], tf.int64), b""),
    "a_feature_of_another_dtype": wrong(lambda: tf.FixedLenFeature([2], tf.float32)),
    "a_feature_of_another_length": wrong(lambda: tf.FixedLenFeature([3], tf.int64)),
    "a_list_of_another_dtype": wrong(lambda: tf.VarLenFeature(tf.string)),
    "raw_bytes": raw(b"\1\2\3", "uint8"),
    "raw_numbers": raw([b"\1\0\0\0\2\0\0\0", b"\3\0\0\0\4\0\0\0"], "int32"),
    "raw_numbers_of_the_other_order": raw(b"\0\1\0\2", "int16", little_endian=False),
    "raw_numbers_that_are_cut": raw(b"\1\2\3", "float32"),
    "raw_texts_of_two_lengths": raw([b"\1", b"\1\2"], "uint8"),
    "a_line_of_a_table": table('a,1,"x, y",2.5', lambda: [["?"], [0], ["?"], [0.0]]),
    "lines_of_a_table": table(["1,2", "3,"], lambda: [[0], [7]]),
    "a_line_with_another_mark": table("1|2", lambda: [[0], [0]], field_delim="|"),
    "a_line_that_is_short": table("1,2", lambda: [[0], [0], [0]]),
    "a_line_that_lacks_what_must_be": table(
        "1,", lambda: [[0], tf.constant([], tf.int32)]
    ),
    "a_line_with_a_word_for_a_number": table("1,two", lambda: [[0], [0]]),
    "some_columns": table("1,2,3", lambda: [[0], [0]], select_cols=[0, 2]),
    "what_is_not_available": table("1,NA", lambda: [[0], [5]], na_value="NA"),
    "examples_of_a_wrong_kind": lambda: tf.train.Int64List(value=[1.5]),
    "texts_that_are_no_bytes": lambda: tf.train.BytesList(value=["a"]),
    "no_features": lambda: tf.parse_single_example("", {}),
}
