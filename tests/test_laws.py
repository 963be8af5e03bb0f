"""The laws of the house, read from the source without importing it.

A law takes one file and yields complaints. Each is tried twice: on every file of the
project, and on a line made up to break it, so a law that sees nothing is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from io import StringIO
from pathlib import Path
from token import STRING
from tokenize import generate_tokens

from tests import linux_only, markup
from tests.cases import for_each
from tests.markup import html_is_built_by_one_function
from tests.source import FILES, ROOT, SHIPPED, Source, sources, within

# A module may import from its own layer and from those below. The longest name counts;
# what is only planned may be listed. `kit` alone is the public window on everything.
LAYERS = {
    name: number
    for number, names in {
        0: "kit.task kit.errors kit.handles kit.pickling kit.settings kit.spec "
        "kit.bfloat16 kit.cluster_def kit.crc kit.memory_order "
        "kit.message_fields kit.native kit.markup kit.protobuf_text kit.waking "
        "kit.devices kit.faults kit.regular_file kit.frames kit.system "
        "kit.features kit.progress kit.protobuf_wire",
        1: "kit.trace kit.arrays kit.checkpoint kit.wire kit.arithmetic "
        "kit.forking kit.machine",
        2: "kit.exchange kit.graph kit.nn kit.random",
        3: "kit.training kit.session kit.hooks kit.picture kit.groups "
        "kit.recording kit.rehearsal",
        4: "kit.server kit.cluster kit.kubernetes",
        5: "kit kit.__init__ kit.__main__ kit.demo kit.magics kit.tf1 kit.testing "
        "kit.experiments kit.puzzles kit.jax kit.torch kit.data",
        6: "widgets",
    }.items()
    for name in names.split()
}

# Where a dependency may be imported, at the top of a file or inside a function.
DOORS: dict[str, tuple[str, ...]] = {
    # What runs in the processes that it starts is the other side of that door.
    "ipyparallel": (
        "kit/cluster/processes/engines.py",
        "kit/cluster/processes/controller.py",
        "kit/cluster/processes/engine_process.py",
        "kit/cluster/processes/launch.py",
    ),
    "dask": (
        "kit/training/data/dask_source.py",
        "kit/session/client/dask_feeds.py",
        "kit/session/client/dask_graph.py",
    ),
    "distributed": ("kit/cluster/dask_workers/plugin.py",),
    "absl": ("kit/tf1/flags.py",),
    "tensorboard": ("kit/tf1/summary/messages.py", "kit/hooks/loggers.py"),
    "wandb": ("kit/hooks/loggers.py",),
    "google": ("kit/tf1/summary/messages.py",),  # protobuf, which TensorBoard brings
    "cupy": ("kit/arrays.py",),
    "ml_dtypes": ("kit/bfloat16.py",),
    "mpi4py": ("kit/wire/mpi.py",),
    "jax": ("kit/jax/*",),
    "torch": ("kit/torch/*",),
    "html": (),  # it escapes where one thinks of it; `kit.markup` everywhere
    "markupsafe": ("kit/markup.py",),
    "isal": ("kit/crc.py",),
    "PIL": ("kit/graph/ops/state/image_files.py",),
    "socket": ("kit/wire/sockets.py", "kit/system/*"),
    "ssl": ("kit/wire/handshake/tls.py",),
    "bokeh": ("widgets/*",),
    "ipywidgets": ("widgets/*",),
    "jupyter_bokeh": ("widgets/*",),
    "matplotlib": ("widgets/comparing/figure.py",),
    "tornado": ("widgets/sharing/server.py",),  # which bokeh's server is made of
    "cloudpickle": (
        "kit/cluster/*",
        "kit/pickling.py",  # what cannot travel is named there
        "kit/puzzles/processes.py",  # a learner's program goes to processes of its own
        "kit/puzzles/process.py",
        "kit/recording/stored_step.py",
        "kit/testing/task_process.py",
    ),
    "pickle": (),
    "multiprocessing.shared_memory": (),
}

# Which files may not import what, whatever their layer.
BARRED: dict[str, frozenset[str]] = {
    "kit/*": frozenset(
        {"widgets", "bokeh", "ipywidgets", "jupyter_bokeh", "pytest", "hypothesis"}
    ),
    "kit/wire/*": frozenset({"numpy"}),  # bytes and buffers only
    "kit/trace/traffic.py": frozenset({"time", "datetime"}),  # it is told when
}


def _pure(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names.split())


PURE = (
    *_pure("kit", "task crc errors markup settings spec cluster_def protobuf_text"),
    "kit/devices/*",
    *_pure("kit/trace", "trace events"),
    *_pure("kit/exchange", "layout plan pipeline"),
    "kit/exchange/topologies/*",
    "kit/graph/*",
    "kit/picture/*",
    *_pure("kit/training/core", "agreement failures"),
    *_pure("kit/training/optimizers", "rule rules"),
    *_pure("kit/training", "data/splits features/evolve"),
    *_pure("kit/session", "client/options"),
    *_pure("kit/session", "transport/serialization"),
    *_pure("kit/wire", "frame"),
)
# So is whatever says of itself that it is, at the start of a line of its first text.
_SAYS_PURE = re.compile(r"^Pure[.:]", re.MULTILINE)
IMPURE_IMPORTS = frozenset(
    {"socket", "ssl", "select", "selectors", "threading", "concurrent", "asyncio"}
    | {"time", "datetime", "random", "subprocess", "multiprocessing", "mmap"}
    | {"ipyparallel", "zmq", "psutil", "bokeh", "ipywidgets", "dask", "cupy"}
)

# The name of a topology, written as a value; that of parameter servers is a job's too.
TOPOLOGY_NAME = re.compile(
    r"""(["'])(ring|mesh|ring-whole|hierarchical|gossip|tree|recursive-doubling)\1"""
)
NAME_TOPOLOGIES = (
    *_pure("kit/exchange/topologies", "ring ring_whole mesh hierarchical gossip"),
    *_pure("kit/exchange/topologies", "tree recursive_doubling"),
    "kit/demo/phases.py",  # what the demonstration shows
    "kit/demo/show.py",
    "widgets/stepping/stepper.py",  # a stepper of the ring
)

VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})


def layer(name: str) -> int | None:
    """The layer of a module or of a name in it; None when it is not ours."""
    expected = [entry for entry in LAYERS if within(name, entry)]
    return LAYERS[max(expected, key=len)] if expected else None


def arrow_points_down(file: Source) -> Iterator[str]:
    own = layer(file.module)
    if own is None:
        return
    for name, line in file.imports.items():
        other = layer(name)
        if other is not None and other > own:
            yield f"{file.path}:{line}: layer {own} imports {name} of layer {other}"


def every_module_has_a_layer(file: Source) -> Iterator[str]:
    top = ".".join(file.module.split(".")[:2])
    if within(top, "kit") and top not in LAYERS:
        yield f"{file.path}: {top} has no layer; give it one in LAYERS"


def tools_for_tests_stay_there(file: Source) -> Iterator[str]:
    tests = ("tests", "kit.testing", "benchmarks")  # some benchmarks make faults
    if any(within(file.module, test) for test in tests):
        return
    for name, line in file.imports.items():
        if within(name, "kit.testing"):
            yield f"{file.path}:{line}: {name} is for tests only"


def dependency_has_one_door(file: Source) -> Iterator[str]:
    if not file.path.startswith(("kit/", "widgets/")):
        return
    for name, line in file.imports.items():
        for package, doors in DOORS.items():
            inside = any(fnmatch(file.path, door) for door in doors)
            if within(name, package) and not inside:
                yield f"{file.path}:{line}: {name} is imported in {doors or 'no file'}"


def barred_import_is_absent(file: Source) -> Iterator[str]:
    for pattern, packages in BARRED.items():
        if not fnmatch(file.path, pattern):
            continue
        for name, line in file.imports.items():
            if any(within(name, package) for package in packages):
                yield f"{file.path}:{line}: {pattern} never imports {name}"


def pure_module_has_no_io(file: Source) -> Iterator[str]:
    is_listed = any(fnmatch(file.path, pattern) for pattern in PURE)
    if not is_listed and not _SAYS_PURE.search(file.contents.docstring):
        return
    for name, line in file.imports.items():
        if name.split(".")[0] in IMPURE_IMPORTS:
            yield f"{file.path}:{line}: a pure module imports {name}"


def imports_are_absolute(file: Source) -> Iterator[str]:
    if ".relative" in file.imports:
        yield f"{file.path}:{file.imports['.relative']}: relative import"


def topology_is_known_by_name_to_itself_alone(file: Source) -> Iterator[str]:
    if not file.path.startswith(SHIPPED) or file.path in NAME_TOPOLOGIES:
        return
    if not TOPOLOGY_NAME.search(file.text):  # most files; tokens take long
        return
    for token in generate_tokens(StringIO(file.text).readline):
        if token.type == STRING and TOPOLOGY_NAME.fullmatch(token.string):
            where = f"{file.path}:{token.start[0]}"
            yield f"{where}: knows a topology by name: {token.line.strip()}"


def our_package_is_not_hidden(file: Source) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), 1):
        if re.search(r"import\s+\w+\s+as\s+" + r"(widgets|kit)\b", line):
            yield f"{file.path}:{number}: hides a package of ours: {line.strip()}"


def file_name_says_something(file: Source) -> Iterator[str]:
    if Path(file.path).stem in VAGUE_NAMES:
        yield f"{file.path}: name the file after its one idea"


def nothing_is_put_off(file: Source) -> Iterator[str]:
    for number, line in enumerate(file.text.splitlines(), 1):
        if re.search(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b", line):
            yield f"{file.path}:{number}: {line.strip()}"


def public_names_are_there(file: Source) -> Iterator[str]:
    listed = re.search(r"^__all__ = \[(.*?)\]", file.text, re.MULTILINE | re.DOTALL)
    if listed is not None:
        rest = file.text.replace(listed[0], "")
        for name in re.findall(r'"(\w+)"', listed[1]):
            if not re.search(rf"\b{name}\b", rest):
                yield f"{file.path}: __all__ lists {name!r}, which is not there"


# What starts, watches and ends the processes of a cluster, which only Linux can.
PROCESSES_OF_LINUX = ("kit/cluster/processes/*", "kit/forking.py")
_OF_LINUX = re.compile(
    r"\b({})\b".format(
        "|".join(
            rf"{module}\.{name}"
            for module, names in linux_only.NAMES.items()
            for name in names.split()
        )
    )
)


def what_only_linux_has_is_in_the_system_layer(file: Source) -> Iterator[str]:
    own = ("kit/system/*", *PROCESSES_OF_LINUX)
    if not file.path.startswith(SHIPPED) or any(fnmatch(file.path, p) for p in own):
        return
    for number, line in enumerate(file.text.splitlines(), 1):
        if used := _OF_LINUX.search(line):
            yield f"{file.path}:{number}: only Linux has {used[0]}: see kit/system"


Law = Callable[[Source], Iterator[str]]

# Each law with files that break it.
LAWS: dict[Law, list[tuple[str, str]]] = {
    arrow_points_down: [
        ("kit/wire/x.py", "from kit.exchange import plan"),
        ("kit/spec.py", "from kit import Cluster"),
        ("kit/faults/x.py", "from kit.testing.streams import sliced"),
        ("kit/demo/x.py", "def f():\n    import widgets"),
    ],
    every_module_has_a_layer: [("kit/novelty.py", "")],
    tools_for_tests_stay_there: [("kit/demo/x.py", "import kit.testing.streams")],
    dependency_has_one_door: [
        ("kit/wire/link.py", "import socket"),
        ("kit/server/x.py", "def f():\n    from dask import array"),
        ("kit/arrays.py", "import multiprocessing.shared_memory"),
        ("kit/arrays.py", "from multiprocessing import shared_memory"),
        ("kit/training/client/run.py", "import pickle"),
        ("widgets/board/board.py", "importlib.import_module('ipyparallel')"),
    ],
    barred_import_is_absent: [
        ("kit/cluster/x.py", "def f():\n    from bokeh.io import show"),
        ("kit/wire/x.py", "import numpy as np"),
    ],
    pure_module_has_no_io: [
        ("kit/spec.py", "import threading"),
        ("widgets/x.py", '"""What it is.\n\nPure.\n"""\nimport time'),
        ("kit/wire/frame.py", "from time import monotonic"),
    ],
    imports_are_absolute: [("kit/x.py", "from . import task")],
    topology_is_known_by_name_to_itself_alone: [
        ("widgets/x.py", '_TITLES = {"ring": "Ring all-reduce"}'),
        ("kit/training/core/job.py", "if name != 'mesh':\n    pass"),
    ],
    our_package_is_not_hidden: [("widgets/x.py", "import ipywidgets as " + "widgets")],
    file_name_says_something: [("kit/wire/utils.py", "")],
    what_only_linux_has_is_in_the_system_layer: [
        ("kit/wire/x.py", "fd = os.eventfd(0)"),
        ("widgets/x.py", "select.epoll()"),
    ],
    nothing_is_put_off: [("kit/x.py", "pass  # TO" + "DO later")],
    html_is_built_by_one_function: markup.BREAK_IT,
    public_names_are_there: [("kit/x.py", '__all__ = [\n    "Gone",\n]')],
}


def test_each_file_that_a_law_names_is_there() -> None:
    named = [*PURE, *BARRED, *(door for doors in DOORS.values() for door in doors)]
    paths = [source.path for source in sources()]
    gone = [name for name in named if not any(fnmatch(p, name) for p in paths)]
    assert gone == []


def folders_without_a_package(files: list[Source]) -> list[str]:
    """The folders with code that an import of an installed wheel does not find."""
    paths = [Path(file.path) for file in files if file.path.startswith(SHIPPED)]
    have = {path.parent for path in paths if path.name == "__init__.py"}
    return sorted({str(path.parent) for path in paths} - {str(item) for item in have})


def test_every_folder_with_code_is_a_package() -> None:
    assert folders_without_a_package(FILES) == []


def test_a_folder_without_its_init_is_noticed() -> None:
    files = [Source("kit/new/__init__.py", ""), Source("kit/new/deep/x.py", "")]

    assert folders_without_a_package(files) == ["kit/new/deep"]


def imported_in_a_circle(files: list[Source]) -> list[str]:
    """The modules that import each other, in functions too, but for types."""
    by_name = {file.module.removesuffix(".__init__"): file for file in files}

    def needs_of(name: str, file: Source) -> set[str]:
        parts = [text.split(".") for text in file.contents.needed]
        result = {".".join(part[:n]) for part in parts for n in range(1, len(part) + 1)}
        return {item for item in result & by_name.keys() if not within(name, item)}

    left = {name: needs_of(name, file) for name, file in by_name.items()}
    while True:
        imported = set().union(*left.values())
        inner = {
            name: needs & left.keys()
            for name, needs in left.items()
            if needs & left.keys() and name in imported
        }
        if inner.keys() == left.keys():
            return sorted(left)
        left = inner


def test_no_files_import_each_other_but_for_types() -> None:
    files = [file for file in FILES if file.path.startswith(SHIPPED)]

    assert imported_in_a_circle(files) == []


@for_each("head", ["", "def f():\n    ", "if TYPE_CHECKING:\n    "])
def test_a_circle_of_imports_is_noticed(head: str) -> None:
    files = [
        Source("kit/a/__init__.py", "from kit.a import x"),
        Source("kit/a/x.py", f"{head}import kit.b"),
        Source("kit/a/y.py", ""),
        Source("kit/b.py", "from kit.a import y"),  # and so its package
    ]

    expected = [] if "TYPE" in head else ["kit.a", "kit.a.x", "kit.b"]
    assert imported_in_a_circle(files) == expected


_HEAD = ("kit", "kit.__init__")  # on top of all, drawn nowhere


def drawn_layers(page: str) -> dict[str, int]:
    """The layer of each module in the first drawing of ARCHITECTURE.md."""
    result: dict[str, int] = {}
    number = 0
    for line in page.split("```")[1].splitlines():
        number = int(line[0]) if line[:1].isdigit() else number
        names = re.findall(r"\b(?:kit|widgets)/\S*", line)
        result |= {name.strip("/").replace("/", "."): number for name in names}
    return result


def test_the_architecture_draws_each_layer_as_it_is() -> None:
    drawn = drawn_layers((ROOT / "ARCHITECTURE.md").read_text("utf-8"))

    assert drawn == {name: n for name, n in LAYERS.items() if name not in _HEAD}


@for_each("law", LAWS, ids=lambda law: law.__name__)
def test_every_file_keeps_the_law(law: Law) -> None:
    complaints = [text for file in FILES for text in law(file)]

    assert not complaints, "\n" + "\n".join(complaints)


@for_each(
    ("law", "path", "text"),
    [(law, path, text) for law, broken in LAWS.items() for path, text in broken],
)
def test_law_notices_a_file_that_breaks_it(law: Law, path: str, text: str) -> None:
    assert list(law(Source(path, text)))
