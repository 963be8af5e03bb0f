"""What holds for every test: it leaves nothing behind, and chance has a budget.

After each test no thread, no child process and no socket, memfd or eventfd may be there
that was not there before. Such things often need a moment to end, so a difference is
looked at again for `GRACE_S` seconds; only a difference costs time.

What a fixture of a whole file holds (a running cluster, for example) is there before
the first look, so it may stay. `@pytest.mark.lasting("descriptor", "thread")` is for
tests during which such a fixture may go on to take more of these kinds. At the end of
the session nothing that the tests started may run, orphans included.

What a test leaves that fails is ended, orphans included, so it harms no other test.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import py_compile
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from _pytest.assertion import rewrite
from _pytest.doctest import DoctestModule
from _pytest.unraisableexception import collect_unraisable

from tests import zygote

GRACE_S = 10.0
DEATH_S = 10.0

# Tests have sockets below `tmp_path`, and the path of one has at most 107 bytes. Below
# the temporary folder, which may be a long one, pytest numbers its runs.
SHORT_FOLDER, SHORT_PREFIX = Path("/tmp"), "kit-tests-"
SHORT_BASE = pytest.StashKey[Path]()
DAY_S = 24 * 3600

# Every process that the tests start inherits this variable, whoever adopts it later.
MARK = "PSRING_TEST_RUN"

THREADS_THAT_LAST = (
    "pytest_timeout ",  # the watchdog of the running test
    "pydevd",  # a debugger
    "tqdm_monitor",  # tqdm keeps one for the whole process
    "Profile",  # distributed's sampling profiler, one for the whole process
)
CHILDREN_THAT_LAST = (
    "multiprocessing.resource_tracker",  # one for the whole process, ends with it
    "multiprocessing.forkserver",  # the same
    "--type=",  # chromium's, by what they do; they end with the browser
)
FORK_SERVER = "kit.testing.task_process"
# The same; what they have forked counts.
FORK_SERVERS = (FORK_SERVER, zygote.NAME)
DESCRIPTORS_THAT_COUNT = re.compile(r"socket:|/memfd:|anon_inode:\[eventfd")

# In a list on as many lines as it takes, or without one.
ALL_SLOW = re.compile(
    rb"^pytestmark = (\[[^\]]*?|[^\[\n]*)(pytest\.mark\.slow|IN_A_BROWSER)\b", re.M
)

zygote.leave_out_what_is_slow()
if "PYTEST_XDIST_WORKER" in os.environ:  # numpy is not loaded yet
    # Each core has a worker: threads that spin while they wait for BLAS take its time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

hypothesis.settings.register_profile("fast", deadline=None, max_examples=10)
hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=40, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile(
    "nightly", deadline=None, max_examples=2000, print_blob=True
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

CODE = ("kit", "widgets", "benchmarks", "tests")  # folders

FAILED = pytest.StashKey[bool]()
BEGAN = pytest.StashKey[float]()
CLUSTERS = pytest.StashKey[Set[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--browser",
        choices=["with", "without", "only"],
        default="with",
        help="run tests that open a browser too (the default), not, or nothing else",
    )


@pytest.hookimpl(tryfirst=True)  # before pytest makes its folder
def pytest_configure(config: pytest.Config) -> None:
    if config.option.basetemp is None:
        remove_what_failed_yesterday()
        config.option.basetemp = tempfile.mkdtemp(prefix=SHORT_PREFIX, dir=SHORT_FOLDER)
        config.stash[SHORT_BASE] = Path(config.option.basetemp)
    # A shell starts what runs in the background with SIGINT ignored, which every
    # process inherits: none could be interrupted, and tests do interrupt some.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    zygote.install()
    config.pluginmanager.register(FilesWithTests(config))


def remove_what_failed_yesterday() -> None:
    for folder in SHORT_FOLDER.glob(f"{SHORT_PREFIX}*"):
        with suppress(OSError):  # another run has removed it
            status = folder.lstat()
            is_old = status.st_mtime < time.time() - DAY_S
            if is_old and status.st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove what the tests have written, but for a look at one that has failed."""
    base = session.config.stash.get(SHORT_BASE, None)
    if base is not None and exitstatus != pytest.ExitCode.TESTS_FAILED:
        shutil.rmtree(base, ignore_errors=True)


def pytest_xdist_auto_num_workers() -> int:
    """Return what `-n auto` means: more than cores, as many tests wait for others."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile what has changed, which each worker would do for itself.

    In a new clone that would take each of them 13 s of a processor.
    """
    if sys.dont_write_bytecode:
        return
    files = [
        path
        for folder in CODE
        for path in (config.rootpath / folder).rglob("*.py")
        if is_changed(path)
    ]
    n_cores = len(os.sched_getaffinity(0))
    forks = multiprocessing.get_context("fork")  # they have the configuration
    compiling = [
        forks.Process(target=compile_all, args=(files[first::n_cores], config))
        for first in range(min(n_cores, len(files)))
    ]
    for process in compiling:
        process.start()
    for process in compiling:
        process.join()


def compiled(path: Path) -> Path:
    """Return where the code of a file is kept: by pytest, if it explains asserts."""
    if is_explained(path):
        return rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
    return Path(cache_from_source(path))


def is_explained(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "conftest.py"


def is_changed(path: Path) -> bool:
    try:
        return compiled(path).stat().st_mtime < path.stat().st_mtime
    except FileNotFoundError:
        return True


def compile_all(files: Sequence[Path], config: pytest.Config) -> None:
    state = config.stash[rewrite.assertstate_key]
    for path in files:
        with suppress(SyntaxError, OSError):  # whoever imports it says what is wrong
            if is_explained(path):
                compiled(path).parent.mkdir(exist_ok=True)
                stat, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(state, code, stat, compiled(path))
            else:
                py_compile.compile(str(path), doraise=True)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    choice = config.getoption("browser")
    if choice == "with":
        return
    opening = [item for item in items if item.get_closest_marker("browser")]
    others = [item for item in items if not item.get_closest_marker("browser")]
    kept, left_out = (opening, others) if choice == "only" else (others, opening)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


class FilesWithTests:
    """Leaves out the files in which there is nothing to collect; none is imported.

    It is registered as a plugin of its own: hooks of this file see its folder alone.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._is_for_browser = config.getoption("browser") == "only"
        self._is_fast = config.getoption("markexpr") == "not slow"

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if self._is_for_browser and is_without_browser(collection_path):
            return True
        return True if self._is_fast and is_slow(collection_path) else None

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self,
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Look for examples only in files that have some; few files do.

        All others would be imported, and each of their functions be looked through.
        """
        result = yield
        return [item for item in result if not is_without_examples(item)]


def is_without_browser(path: Path) -> bool:
    """Whether it is a file in which no test can open a browser."""
    return path.suffix == ".py" and b"browser" not in path.read_bytes()


def is_slow(path: Path) -> bool:
    """Whether it is a file in which all tests are marked slow."""
    return path.suffix == ".py" and bool(ALL_SLOW.search(path.read_bytes()))


def is_without_examples(collector: pytest.Collector) -> bool:
    return isinstance(collector, DoctestModule) and b">>> " not in (
        collector.path.read_bytes()
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Take what was collected out of the garbage collector's sight.

    It lasts as long as the process: a million objects, which each full collection
    would go through again. Tests that wait for one took a second each.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)  # what a test leaves is looked for in any case


@dataclass(frozen=True)
class Descriptor:
    """An open file; `ordinal` tells apart those that have the same target."""

    target: str
    ordinal: int
    number: int = field(compare=False)


Held = frozenset[threading.Thread | psutil.Process | Descriptor]


def held() -> Held:
    """Return everything that this process holds now and that a test must give back."""
    return frozenset([*threading.enumerate(), *children(), *descriptors()])


def children() -> list[psutil.Process]:
    # psutil looks at all processes of the machine for it, which costs milliseconds.
    result = []
    parents = [os.getpid()]
    for parent in parents:
        for pid in children_of(parent):
            with suppress(psutil.NoSuchProcess):
                result.append(psutil.Process(pid))
                parents.append(pid)
    return result


# These two run twice a test. With `Path` they took longer than most tests do.
def children_of(pid: int) -> list[int]:
    result: list[int] = []
    with suppress(OSError):  # it or a thread of it is gone
        for thread in list(os.scandir(f"/proc/{pid}/task")):  # and so closed
            file = os.open(f"{thread.path}/children", os.O_RDONLY)
            try:
                result.extend(map(int, os.read(file, 1 << 16).split()))
            finally:
                os.close(file)
    return result


def descriptors() -> Iterator[Descriptor]:
    seen: Counter[str] = Counter()
    for entry in list(os.scandir("/proc/self/fd")):
        with suppress(OSError):  # the one that lists the folder is gone
            target = os.readlink(entry.path)  # noqa: PTH115
            if DESCRIPTORS_THAT_COUNT.match(target):
                yield Descriptor(target, seen[target], int(entry.name))
                seen[target] += 1


def is_leak(thing: threading.Thread | psutil.Process | Descriptor) -> bool:
    match thing:
        case threading.Thread():
            if thing.name.startswith(THREADS_THAT_LAST) or not thing.is_alive():
                return False
            # dask's default pool lives as long as the process, once it was used.
            pool = getattr(sys.modules.get("dask.threaded"), "default_pool", None)
            return thing not in getattr(pool, "_threads", ())
        case psutil.Process():
            words = command(thing)
            return not any(name in words for name in CHILDREN_THAT_LAST) and not (
                any(name in words for name in FORK_SERVERS) and is_own(thing)
            )
        case Descriptor():
            forking = sys.modules.get(FORK_SERVER)
            lasting = zygote.zygote.fds | (forking.forks.fds if forking else set())
            return thing.number not in lasting


def is_own(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.ppid() == os.getpid()
    return False


def kind(thing: threading.Thread | psutil.Process | Descriptor) -> str:
    return describe(thing).split()[0]


def describe(thing: threading.Thread | psutil.Process | Descriptor) -> str:
    match thing:
        case threading.Thread():
            return f"thread {thing.name!r}{', a daemon' if thing.daemon else ''}"
        case psutil.Process():
            return f"process {thing.pid}: {command(thing)}"
    return f"descriptor {thing.number}: {thing.target}{ends_of(thing)}"


def command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.ZombieProcess:
        return "a zombie, nobody waited for it"
    except psutil.Error:
        return "gone"


def ends_of(descriptor: Descriptor) -> str:
    if not descriptor.target.startswith("socket:"):
        return ""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor.number)) as twin:
        ends = f" {twin.family.name} {twin.getsockname()!r}"
        with suppress(OSError):
            ends += f" to {twin.getpeername()!r}"
        return ends
    return ""


def wait_until_none(look: Callable[[], Iterable[str]]) -> list[str]:
    """Look until there is nothing to see or the time is up; return what is left."""
    begin = time.monotonic()
    while (left := list(look())) and time.monotonic() < begin + GRACE_S:
        time.sleep(0.01)
        # Most things only need a moment; to collect takes some hundredths of a second.
        if time.monotonic() > begin + 0.03:
            gc.collect()
    return left


@pytest.fixture(autouse=True)
def _test_leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("engines"):
        take_lasting_descriptors_of_zmq()
    excused = {
        name for mark in request.node.iter_markers("lasting") for name in mark.args
    }
    before = held()
    yield

    left = wait_until_none(
        lambda: (
            describe(thing)
            for thing in held() - before
            if kind(thing) not in excused and is_leak(thing)
        )
    )
    if left:
        pytest.fail("this test left behind:\n  " + "\n  ".join(left), pytrace=False)


def take_lasting_descriptors_of_zmq() -> None:
    # The context of the process keeps its eventfds from the first socket on, and a
    # thread from the first large message on.
    import zmq
    from zmq.utils.garbage import gc as thread_of_messages

    zmq.Context.instance().socket(zmq.PAIR).close()
    if not thread_of_messages.is_alive():
        thread_of_messages.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[BEGAN], item.stash[CLUSTERS] = since_boot(), clusters()
    result = yield
    # What fixtures of the file have started by now is for its other tests too.
    item.stash[BEGAN], item.stash[CLUSTERS] = since_boot(), clusters()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    except BaseException:
        item.stash[FAILED] = True
        raise
    finally:
        if item.stash.get(FAILED, False):
            for cluster in clusters() - item.stash[CLUSTERS]:
                with suppress(Exception):  # the test has failed already
                    cluster.stop()
            end_what_is_left(item.stash[BEGAN])
            forget_what_is_left(item.config)


def forget_what_is_left(config: pytest.Config) -> None:
    """Drop what a failed test held, and the warnings that it was not closed.

    Pytest would give them to the next test.
    """
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)  # they hold the frames of the test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
        collect_unraisable(config)


def clusters() -> Set[Any]:
    """Return the clusters that run in this process; the newest is the current one."""
    lifecycle = sys.modules.get("kit.cluster.lifecycle")  # nothing runs if not loaded
    return frozenset() if lifecycle is None else frozenset(lifecycle.running())


def end_what_is_left(began: float) -> None:
    """End the processes started since `began`, but not what older ones have started.

    A cluster that a file's tests share restarts its own tasks, and goes on.
    """
    mark = os.environ.get(MARK)
    running = {
        process.pid: process
        for process in psutil.process_iter()
        if process.pid != os.getpid() and is_marked(process, mark) and is_leak(process)
    }
    older = {pid for pid, process in running.items() if is_older(process, began)}
    killed = []
    for pid, process in running.items():
        with suppress(psutil.Error):
            if pid not in older and not older & {
                parent.pid for parent in process.parents()
            }:
                process.kill()
                killed.append(process)
    # On a busy machine a process runs on for a moment after it was killed. A zombie has
    # ended, and psutil's own wait would wait for whoever has to take it.
    deadline = time.monotonic() + DEATH_S
    while any(map(is_alive, killed)) and time.monotonic() < deadline:
        time.sleep(0.01)


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def is_older(process: psutil.Process, moment: float) -> bool:
    # psutil's own time of creation is right to a second only.
    with suppress(OSError):
        stat = Path(f"/proc/{process.pid}/stat").read_text("utf-8", "replace")
        ticks = int(stat.rpartition(")")[2].split()[19])
        return (ticks + 1) / os.sysconf("SC_CLK_TCK") < moment
    return False


def is_marked(process: psutil.Process, mark: str | None) -> bool:
    with suppress(psutil.Error):
        return mark is not None and process.environ().get(MARK) == mark
    return False


@pytest.fixture(autouse=True, scope="session")
def _session_leaves_no_process() -> Iterator[None]:
    value = os.environ[MARK] = uuid.uuid4().hex
    yield

    del os.environ[MARK]
    left = wait_until_none(lambda: marked(value))
    if left:
        pytest.fail("the tests left running:\n  " + "\n  ".join(left), pytrace=False)


def marked(value: str) -> Iterator[str]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if is_marked(process, value) and (not is_own(process) or is_leak(process)):
                yield describe(process)
