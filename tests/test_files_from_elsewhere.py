"""Whatever somebody puts in a file's place, the reader says so at once.

A FIFO must not be waited for, and nothing may be allocated for what a sparse file or a
header only claims to hold. That nothing hangs is seen to by the limit of every test.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import kit
from kit.checkpoint import Folder, Manifest, read_manifest
from kit.checkpoint.bundle import TensorBundle, write_bundle
from kit.demo.grading import write as write_grades
from kit.errors import (
    CheckpointFailed,
    DataLossError,
    InvalidArgumentError,
    KitError,
    PermissionDeniedError,
)
from kit.faults.history import History
from kit.graph.graph import Graph
from kit.graph.variable import Variable
from kit.picture.picture import Picture
from kit.picture.reading import scene_of
from kit.regular_file import (
    append_regular,
    create_regular,
    read_regular,
    replace_regular,
)
from kit.session.client.saving import restore_variables, save_variables
from kit.session.client.session import Session
from kit.session.worker.record_files import masked, records
from kit.task import Task
from kit.tf1.graph.graph import Graph as Tf1Graph
from kit.tf1.python_io import TFRecordOptions, TFRecordWriter
from kit.tf1.train.checkpointing.checkpoint_state import (
    get_checkpoint_state,
    update_checkpoint_state,
)
from kit.tf1.train.checkpointing.meta_graph import (
    export_scoped_meta_graph,
    import_scoped_meta_graph,
)
from kit.trace.file import write_atomically
from kit.trace.trace import Trace
from kit.training.features.checkpointing.resume import FolderLock
from kit.wire.handshake.credentials import Credentials
from tests.cases import for_each

MOST_BYTES = 64 << 20
GIB = 1 << 30
VALUES = {"w": np.arange(8, dtype=np.float32)}


@dataclass
class Case:
    """A good file, how it is read, and what its reader raises for anything else."""

    path: Path
    read: Callable[[], object]
    errors: tuple[type[Exception], ...]


def load(folder: Path) -> Mapping[str, np.ndarray[Any, Any]]:
    return Folder(folder).load_newest()[1]


def manifest(folder: Path) -> Case:
    whole = Folder(folder).save(1, VALUES)
    return Case(
        whole / "manifest.json", lambda: read_manifest(whole), (CheckpointFailed,)
    )


def shard(folder: Path) -> Case:
    path = Folder(folder).save(1, VALUES) / "all.safetensors"
    return Case(path, lambda: load(folder), (CheckpointFailed,))


def index(folder: Path) -> Case:
    prefix = str(folder / "m")
    write_bundle(prefix, ["w"], [""], [VALUES["w"]])
    return Case(
        folder / "m.index",
        lambda: TensorBundle(prefix).read(["w"], [""]),
        (CheckpointFailed,),
    )


def data(folder: Path) -> Case:
    return replace(index(folder), path=folder / "m.data-00000-of-00001")


def state(folder: Path) -> Case:
    update_checkpoint_state(str(folder), str(folder / "m"), None, None)
    read = lambda: get_checkpoint_state(str(folder))  # noqa: E731
    return Case(folder / "checkpoint", read, (InvalidArgumentError,))


def mark(folder: Path) -> Case:
    FolderLock(folder, "run", "worker:0").close()
    read = lambda: FolderLock(folder, "run", "worker:0").close()  # noqa: E731
    return Case(folder / ".owner", read, (CheckpointFailed,))


def trace(folder: Path) -> Case:
    path = folder / "run.json"
    Trace(()).save(path)
    return Case(path, lambda: Trace.load(path), (InvalidArgumentError, DataLossError))


def variables(folder: Path) -> Case:
    with Graph().as_default(), Session() as session:
        v = Variable(VALUES["w"], name="w")
        session.run(v.initializer)
        path = save_variables(session, folder / "v")

    def read() -> None:
        with Session(graph=v.graph) as session:
            restore_variables(session, path)

    return Case(folder / "v.index", read, (CheckpointFailed,))


def meta_graph(folder: Path) -> Case:
    path = folder / "m.meta"

    def read() -> None:
        with Tf1Graph().as_default():
            import_scoped_meta_graph(str(path))

    with Tf1Graph().as_default():
        export_scoped_meta_graph(str(path))
    return Case(path, read, (OSError,))


def credentials(folder: Path) -> Case:
    folder.chmod(0o700)
    path = folder / "key"
    Credentials.new(certificate=False).save(path)
    errors = (InvalidArgumentError, PermissionDeniedError)
    return Case(path, lambda: Credentials.load(path), errors)


READERS = [
    *(manifest, shard, index, data),
    *(state, mark, trace, variables, meta_graph, credentials),
]


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def link_to_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    os.truncate(path, 3 * GIB)


def nested(path: Path) -> None:
    path.write_bytes(b'{"psring": ' + b'{"a": ' * 100_000 + b"[" * 100_000)


def fails(case: Case) -> Exception:
    """Return what the reader raises, having taken little memory to find out."""
    tracemalloc.start()
    try:
        with pytest.raises(case.errors) as caught:
            case.read()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MOST_BYTES
    assert str(case.path.parent) in str(caught.value)
    return caught.value


TEXTS = [manifest, index, trace, credentials]
CASES = [
    *((make, spoil) for make in READERS for spoil in (fifo, link_to_device)),
    # A mounted secret is a link; which ones are followed, test_mounted_secret.py says.
    *((make, link) for make in READERS if make is not credentials),
    *((make, sparse) for make in READERS if make is not mark),  # it is cut to size
    *((make, nested) for make in TEXTS),
]


@for_each(("make", "spoil"), CASES, lambda function: function.__name__)
def test_what_is_not_the_file_is_refused(
    tmp_path: Path, make: Callable[[Path], Case], spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / f"{make.__name__}-{spoil.__name__}"
    folder.mkdir()
    case = make(folder)
    case.read()

    spoil(case.path)

    fails(case)


def test_folders_on_the_way_may_be_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    whole = Folder(tmp_path / "real").save(1, VALUES)
    (tmp_path / "real" / "step-2").symlink_to(whole.name)

    assert load(tmp_path / "link")["w"].tolist() == VALUES["w"].tolist()


def signed(plain: dict[str, object]) -> bytes:
    """Return a manifest whose digest is right, whatever it says."""
    body = json.dumps(plain, indent=1).removesuffix("\n}")
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body},\n "sha256": "{digest}"\n}}\n'.encode()


def test_manifest_that_nests_deeper_than_python_goes_is_refused() -> None:
    for depth in (150, 400, 950, 5000):
        extra = b"[" * depth + b"]" * depth
        whole = Manifest(1, extra={"a": 0}).to_bytes()
        deep = whole.replace(b'"a": 0', b'"a": ' + extra)

        with pytest.raises(CheckpointFailed):
            Manifest.parse(deep)


def unsigned(path: Path) -> Any:
    """Return what a manifest says, to be changed and signed again."""
    plain = json.loads(path.read_bytes())
    del plain["sha256"]
    return plain


def test_tensor_that_only_a_manifest_claims_is_not_allocated(tmp_path: Path) -> None:
    path = manifest(tmp_path).path
    plain = unsigned(path)
    piece = plain["shards"][0]["pieces"][0]
    piece |= {"shape": [GIB], "count": GIB, "n_bytes": 4 * GIB}
    plain["shards"][0]["size"] += 4 * GIB - 32
    path.write_bytes(signed(plain))

    fails(Case(path, lambda: load(tmp_path), (CheckpointFailed,)))


@pytest.mark.parametrize("shape", [[0, 2**70], [0, 2**62, 2**62], [0] * 65, ["0"]])
def test_shape_that_no_array_has_is_refused(tmp_path: Path, shape: list[int]) -> None:
    path = Folder(tmp_path).save(1, {"w": np.empty(0, np.float32)}) / "manifest.json"
    plain = unsigned(path)
    plain["shards"][0]["pieces"][0]["shape"] = shape
    path.write_bytes(signed(plain))

    fails(Case(path, lambda: load(tmp_path), (CheckpointFailed,)))


W = {"shape": [8], "dtype": "float32", "parts": ["8 0,4", "8 4,4"]}


@pytest.mark.parametrize(
    "slices",
    [
        *(1, {"w": 1}, {"w": {}}, {"w": {**W, "parts": 1}}, {"w": {**W, "parts": []}}),
        {"w": {**W, "shape": [GIB]}},
        {"w": {**W, "dtype": "int64"}},
        {"w": {**W, "parts": ["8 0,4", "8 0,4"]}},
        {"w": {**W, "parts": ["8 0,4", "8 4,5"]}},
        {"w": {**W, "parts": ["8 0,4", "8 3,4"]}},
        {"v": W},
    ],
)
def test_slices_that_are_not_as_an_index_says_are_refused(
    tmp_path: Path, slices: object
) -> None:
    prefix, half = str(tmp_path / "m"), VALUES["w"][:4]
    write_bundle(prefix, ["w", "w"], ["8 0,4", "8 4,4"], [half, half])
    path = tmp_path / "m.index"
    plain = unsigned(path)
    assert plain["extra"]["slices"] == {"w": W}
    plain["extra"]["slices"] = slices
    path.write_bytes(signed(plain))

    fails(Case(path, lambda: TensorBundle(prefix), (CheckpointFailed,)))


def test_whole_of_which_a_part_is_there_is_not_allocated(tmp_path: Path) -> None:
    prefix, text = str(tmp_path / "m"), f"{GIB} 0,4"
    write_bundle(prefix, ["w"], [text], [VALUES["w"][:4]])
    bundle = TensorBundle(prefix)

    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError, match="does not hold all"):
            bundle.read(["w"], [""])
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    assert bundle.read(["w"], [text])[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("shape", [(GIB,), (8, 2**61)])
def test_array_that_only_a_header_claims_is_not_allocated(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    case = variables(tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(case.path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", header.getvalue() + bytes(1 << 20))

    fails(case)


def holed(path: Path, pieces: list[tuple[int, bytes]], size: int) -> None:
    with path.open("wb") as file:
        for at, piece in pieces:
            file.seek(at)
            file.write(piece)
    os.truncate(path, size)
    assert path.stat().st_blocks * 512 < size // 10, "no holes on this file system"


def test_file_that_is_nearly_all_holes_is_refused_before_it_is_read(
    tmp_path: Path,
) -> None:
    path, size = tmp_path / "file", 1 << 30
    for pieces in (
        [],
        [(0, b"{"), (size - 1, b"}")],
        [(n << 20, bytes([1]) * 4096) for n in range(1024)],  # a hole after each
    ):
        holed(path, pieces, size)

        fails(Case(path, lambda: read_regular(path, 1 << 31), (InvalidArgumentError,)))

    # Zeros of a good file may be holes where the file system compresses.
    data = bytes([1]) * (1 << 20)
    holed(path, [(0, data)], 20 << 20)
    assert read_regular(path, 1 << 31) == data.ljust(20 << 20, b"\0")


def test_tensor_of_holes_is_not_allocated(tmp_path: Path) -> None:
    values = {"w": np.zeros(32 << 20, np.uint8), "v": np.ones(8)}
    whole = Folder(tmp_path).save(1, values)
    assert load(tmp_path)["w"].size == 32 << 20
    path = whole / "all.safetensors"
    begin, size = path.read_bytes()[:4096], path.stat().st_size

    holed(path, [(0, begin), (size - 64, bytes([0]) * 64)], size)

    error = fails(Case(path, lambda: load(tmp_path), (CheckpointFailed,)))
    assert "holes" in str(error)


def test_size_is_looked_at_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")

    assert read_regular(path, 5) == b"12345"
    with pytest.raises(InvalidArgumentError, match=r"5 bytes.* 4 at most"):
        read_regular(path, 4)


def test_device_is_refused_without_being_opened() -> None:
    with pytest.raises(InvalidArgumentError, match="/dev/zero is a device"):
        read_regular("/dev/zero", 5)


def one_record(size: int) -> bytes:
    head = struct.pack("<Q", size)
    return head + masked(head) + bytes(100 << 20)


@for_each(
    ("compression", "packed"),
    [
        ("", lambda whole: whole[:1000]),
        ("ZLIB", lambda whole: zlib.compress(whole, 1)),
        ("GZIP", lambda whole: gzip.compress(whole, 1)),
    ],
)
def test_records_that_a_file_only_claims_are_not_allocated(
    compression: str, packed: Callable[[bytes], bytes]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "records"
        for size in (2**34, 2**60, 2**64 - 1):
            path.write_bytes(packed(one_record(size)))
            read = lambda: list(records(os.fsencode(path), compression))  # noqa: E731

            error = fails(Case(path, read, (DataLossError,)))

            assert "more than" in str(error)


@pytest.mark.parametrize(("kind", "compression"), [(0, ""), (1, "ZLIB"), (2, "GZIP")])
def test_records_of_all_sizes_are_read_whole(
    kind: int, compression: str, tmp_path: Path
) -> None:
    path, expected = tmp_path / "records", [b"", b"a", os.urandom(5 << 20), b"b" * 99]
    with TFRecordWriter(str(path), TFRecordOptions(kind)) as writer:
        for record in expected:
            writer.write(record)

    assert [value for _, value in records(os.fsencode(path), compression)] == expected


# -- what we write, in a folder where others may write too ----------------------------

WRITERS: dict[str, Callable[[Path], object]] = {
    "report.html": lambda path: write_atomically(path, ["new"]),
    "run.svg": lambda path: Picture(scene_of([])).save(path),
    "worker-0.jsonl": lambda path: noted(path.parent),
    "grades.csv": lambda path: write_grades([], path),
    "grades.json": lambda path: write_grades([], path),
}


def noted(folder: Path) -> None:
    history = History(str(folder), Task("worker", 0))
    history.note("step")
    history.close()


@for_each("name", WRITERS)
def test_nothing_is_written_to_where_a_planted_link_leads(name: str) -> None:
    with TemporaryDirectory() as folder:
        shared, victim = Path(folder) / "shared", Path(folder) / "victim"
        shared.mkdir()
        victim.write_text("the user's own")
        path = shared / name
        drafts = [
            f".{name}.{os.getpid()}.draft",
            f"{name}.tmp",
            f"{name}.tmp{os.getpid()}",
        ]
        for link in (name, *drafts):
            (shared / link).symlink_to(victim)

        with suppress(KitError):
            WRITERS[name](path)
            assert not path.is_symlink()

        assert victim.read_text() == "the user's own"


def test_drafts_have_names_that_nobody_knows_before(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        seen.update(path.name for path in tmp_path.iterdir())
        yield b"new"

    seen: set[str] = set()
    for _ in range(3):
        replace_regular(tmp_path / "report.html", pieces())

    assert len(seen - {"report.html"}) == 3
    assert (tmp_path / "report.html").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_new_file_is_refused_where_there_is_anything(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(FileExistsError):
            create_regular(tmp_path / name)
        with pytest.raises(InvalidArgumentError, match="which is not"):
            append_regular(tmp_path / name)
    assert not (tmp_path / "victim").exists()


def test_lines_are_added_to_a_file_and_to_none_of_another_user(tmp_path: Path) -> None:
    for line in (b"a\n", b"b\n"):
        with append_regular(tmp_path / "log") as file:
            file.write(line)
    assert (tmp_path / "log").read_text() == "a\nb\n"

    if os.geteuid() == 0:
        os.chown(tmp_path / "log", 1, 1)
        with pytest.raises(InvalidArgumentError, match="belongs to user 1"):
            append_regular(tmp_path / "log")
        assert (tmp_path / "log").read_text() == "a\nb\n"


@for_each(
    "use",
    [
        kit.load_run,
        kit.load_checkpoint,
        kit.Trace.load,
        kit.Checkpoints,
        kit.Recording,
        lambda path: kit.replay(path, step=lambda params, batch: None),
        lambda path: kit.diff(path, path),
    ],
)
def test_what_is_no_path_is_refused_with_what_belongs_there(
    use: Callable[[Any], Any],
) -> None:
    for wrong in (3, None, ["run"], ""):
        with pytest.raises(InvalidArgumentError, match=r"is not (the|a) (folder|file)"):
            use(wrong)
