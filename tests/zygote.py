"""Python programs of the tests, forked from a process that has imported enough.

    test --Popen--> order --> zygote --clone--> the program, a child of the test

Each cluster starts a controller and a fork server. What these import takes 1.3 s of a
processor, which was a third of all that the tests took. A forked program is like one
that was started: its parent, arguments, environment, descriptors, limits and `__main__`
are those that it would have. What has been imported already it imports at once.

`install` puts this into `subprocess`. Forked are the programs of clusters and kernels
(`FORKED`), those of the tests and benchmarks (`OWN`), and all within `forking()`; these
fork what they start in turn. Whatever is unusual about a start (an option of Python, a
function to call first) is a reason to start the program itself. So do the programs that
most tests start: the clusters of these have no zygote. With `PSRING_NO_ZYGOTE` in the
environment nothing is forked.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import importlib
import inspect
import json
import os
import platform
import resource
import runpy
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "tests/zygote.py"
KERNEL = "ipykernel_launcher"
FORKED = (
    "controller.py",
    "kit.cluster.processes.fork_server",
    "kit.cluster.processes.host",
    KERNEL,
)
OWN = ("benchmarks.", "tests.")  # modules that are programs, and no user's
PRELOADED = (
    "bokeh.embed",
    "bokeh.plotting",
    "numpy.random",
    "ipykernel.debugger",
    "ipykernel.kernelapp",
    "IPython.core.completerlib",
    "IPython.extensions.storemagic",
    "tornado.platform.asyncio",
    "ipyparallel.controller.app",
    "kit.cluster",
    "kit.cluster.processes.engine_process",
    "kit.cluster.cells.remote",
    "kit.magics",
    "kit.server.engine",
)
# What a process reads of its environment when it starts or imports.
READ_EARLY = ("PYTHON", "KIT_SYSTEM", "OPENBLAS_", "NPY_", "LC_", "LANG", "LD_")
BLAS_THREADS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
)  # the first that is set counts
UNBUFFERED = "PYTHONUNBUFFERED"
READ_LATER = ("PYTHONPATH", UNBUFFERED, *BLAS_THREADS)
# What BLAS and numpy read when they were imported, which decides their last bits.
KERNELS = {
    name: os.environ.get(name)
    for name in ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")
}
# A start in another way than this one is no matter of a zygote.
USUAL = {
    "executable": None,
    "preexec_fn": None,
    "shell": False,
    "restore_signals": True,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "process_group": -1,
}
LIMITS = [
    getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")
]
IGNORABLE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_MOST_BYTES, _MOST_FILES = 1 << 16, 64
_HIGH = 500  # and above it
_CLONE = {"x86_64": 56, "aarch64": 220}
IS_USED = platform.machine() in _CLONE and "PSRING_NO_ZYGOTE" not in os.environ
_CLONE_PARENT, _CLONE_SETTID, _CLONE_CLEARTID = 0x8000, 0x1000000, 0x200000
_SET_MM, _SET_MM_MAP = 35, 14  # prctl(2)

started: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]
replaced = os.execve
_parameters = list(inspect.signature(started).parameters)[1:]


@dataclass(frozen=True)
class Order:
    """A program to be forked; `words` are its arguments behind those for Python."""

    args: list[str]
    words: list[str]
    is_safe: bool  # -P
    env: dict[str, str]
    folder: str
    is_leader: bool  # of a session of its own
    group: int  # of processes, else
    limits: list[tuple[int, int]]  # in the order of LIMITS
    cores: list[int]
    mask: list[int]
    ignored: list[int]
    passed: list[int]  # the numbers of descriptors beyond the first three
    has_zygote: bool
    forks_all: bool  # with that zygote


# -- the near end: whoever starts programs ----------------------------------------


class Zygote:
    """The process from which the programs that this process starts are forked."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = threading.Lock()
        self._orders: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._early: dict[str, str] = {}
        self._n_failed = 0  # in a row
        self.forks_all = False

    @property
    def fds(self) -> frozenset[int]:
        """The descriptors that it keeps open while this process runs."""
        return (
            frozenset() if self._orders is None else frozenset([self._orders.fileno()])
        )

    def take(self, orders: socket.socket) -> None:
        """Use a zygote that is there already."""
        self._orders, self._early = orders, read_early(os.environ)

    def leave(self) -> None:
        """Let this process start all that it starts."""
        start_by(started)
        if self._orders is not None:
            self._orders.close()

    def end(self) -> None:
        """End the zygote; the next program starts another one."""
        with self._lock:
            if self._orders is not None:
                self._orders.close()
                self._orders = None
            if self.process is not None:
                self.process.wait()

    def fork(self, order: Order, files: Sequence[int]) -> int | None:
        """Return the number of the new process; None if it has to be started."""
        text = json.dumps(asdict(order)).encode()
        with self._lock:
            if self._n_failed > 1:  # this system does not let it do what it needs
                return None
            orders = self._orders or self._start()
            if read_early(order.env) != self._early or len(text) > _MOST_BYTES:
                return None
            answer = b""
            with suppress(OSError):
                socket.send_fds(orders, [text], files)
                answer = orders.recv(32)
            self._n_failed = 0 if answer else self._n_failed + 1
            if not answer:  # it has ended; the next program starts another one
                orders.close()
                self._orders = None
            return int(answer) if int(answer or 0) > 0 else None

    def _start(self) -> socket.socket:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A clone has no threads: those of BLAS begin in it. And debugpy prints.
        env = dict.fromkeys(BLAS_THREADS, "1") | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        with far:
            self.process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(far.fileno())],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=os.environ | env,
            )
        self.take(near)
        return near


def read_early(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a fork cannot take from its order."""
    return {
        name: value
        for name, value in env.items()
        if name.startswith(READ_EARLY) and name not in READ_LATER
    }


zygote = Zygote()


def leave_out_what_is_slow() -> None:
    """Have jsonschema do without a package that loads for a second of a processor.

    With it jsonschema can tell IRIs, for which no schema here asks.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


@contextmanager
def forking() -> Iterator[None]:
    """Fork each program of Python that is started inside."""
    zygote.forks_all = True
    try:
        yield
    finally:
        zygote.forks_all = False


def install() -> None:
    """Fork such programs from now on, wherever this machine can do so."""
    if IS_USED:
        start_by(execute_child)


def start_by(method: Any) -> None:
    """Let `Popen` start its programs in this way."""
    subprocess.Popen._execute_child = method  # type: ignore[attr-defined]


def execute_child(process: Any, *values: Any) -> None:
    """Replace the method of `Popen` that starts its program."""
    start = dict(zip(_parameters, values, strict=True))
    pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    ends = [start[pipes[0]], start[pipes[3]], start[pipes[5]]]
    files = [end if end != -1 else number for number, end in enumerate(ends)]
    order = order_of(start)
    pid = None
    if order is not None:
        with other_spaces() as spaces:
            pid = zygote.fork(order, files + order.passed + spaces)
    if pid is None:
        started(process, *values)
        return
    process.pid, process._child_created = pid, True
    process._close_pipe_fds(*(start[name] for name in pipes))


def python_path(env: Mapping[str, str]) -> list[str]:
    """Return the folders that PYTHONPATH names."""
    folders = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    return [os.path.abspath(folder) for folder in folders]  # noqa: PTH100


@contextmanager
def other_spaces() -> Iterator[list[int]]:
    """Open the namespaces that this thread has gone to, where the zygote is not."""
    with ExitStack() as stack:
        spaces: list[int] = []
        for name in ("net", "mnt"):
            own, this = (f"/proc/{task}/ns/{name}" for task in ("self", "thread-self"))
            if os.readlink(own) != os.readlink(this):  # noqa: PTH115
                spaces.append(os.open(this, os.O_RDONLY | os.O_CLOEXEC))
                stack.callback(os.close, spaces[-1])
        yield spaces


def order_of(start: Mapping[str, Any]) -> Order | None:
    """Return a start as an order, None if the program is not to be forked."""
    if any(start[name] != value for name, value in USUAL.items()):
        return None
    args = start["args"]
    if isinstance(args, str | bytes | os.PathLike) or args[0] != sys.executable:
        return None
    args = [os.fsdecode(word) for word in args]
    is_safe = args[1:2] == ["-P"]
    words = args[2:] if is_safe else args[1:]
    is_option = words[:1] in (["-m"], ["-c"])
    if not words or (words[0].startswith("-") and not is_option):
        return None
    program = Path(words[is_option]).name
    is_own = words[0] == "-m" and program.startswith(OWN)
    is_asked = zygote.forks_all or is_own or program in FORKED
    if not is_asked or program == Path(__file__).name:
        return None
    env = dict(os.environ if start["env"] is None else start["env"])
    if any(Path(item, "sitecustomize.py").exists() for item in python_path(env)):
        return None
    return Order(
        *(args, words, is_safe),
        env=env,
        folder=os.path.abspath(start["cwd"] or "."),  # noqa: PTH100  # keeps links
        is_leader=start["start_new_session"],
        group=os.getpgrp(),
        limits=[resource.getrlimit(limit) for limit in LIMITS],
        cores=sorted(os.sched_getaffinity(0)),
        mask=sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        ignored=[n for n in IGNORABLE if signal.getsignal(n) is signal.SIG_IGN],
        passed=list(start["pass_fds"]),
        has_zygote=zygote.forks_all or is_own or program == KERNEL,
        forks_all=zygote.forks_all,
    )


# -- the far end: the zygote, and the program that a fork becomes ------------------


class Cloner:
    """Makes copies of this process that are children of its parent."""

    def __init__(self) -> None:
        """Find where libc keeps the number of this thread; it does not say."""
        # With the interpreter's lock held: a copy has no other thread to return it.
        self._c = ctypes.PyDLL(None)
        self._c.syscall.restype = ctypes.c_long
        self._c.pthread_self.restype = ctypes.c_ulong
        thread = self._c.pthread_self()
        (self._tid,) = (
            thread + offset
            for offset in range(512, 1024, 4)
            if ctypes.c_int.from_address(thread + offset).value == os.getpid()
        )

    def clone(self) -> int:
        """Return as `os.fork` does, or a negative number if the system refuses."""
        flags = _CLONE_PARENT | _CLONE_SETTID | _CLONE_CLEARTID | signal.SIGCHLD
        tid, none = ctypes.c_ulong(self._tid), ctypes.c_ulong(0)
        last = (tid, none) if platform.machine() == "x86_64" else (none, tid)
        number = ctypes.c_long(_CLONE[platform.machine()])
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = self._c.syscall(number, ctypes.c_ulong(flags), none, none, *last)
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
        else:
            ctypes.pythonapi.PyOS_AfterFork_Parent()
        return int(pid)


_shown: list[Any] = []  # memory that the kernel reads


def show(args: Sequence[str], env: Mapping[str, str]) -> None:
    """Let /proc show these as the arguments and the environment of this process."""
    variables = [f"{name}={value}" for name, value in env.items()]
    texts = [
        b"".join(os.fsencode(f"{w}\0") for w in words) for words in (args, variables)
    ]
    memory = ctypes.create_string_buffer(b"".join(texts))
    _shown.append(memory)
    begin = ctypes.addressof(memory)
    middle = begin + len(texts[0])
    end = middle + len(texts[1])
    stat = Path("/proc/self/stat").read_text("utf-8", "replace")
    old = dict(enumerate(stat[stat.rindex(")") + 2 :].split(), 3))  # as proc(5) counts
    c = ctypes.CDLL(None, use_errno=True)
    c.sbrk.restype = ctypes.c_void_p
    code = [int(old[field]) for field in (26, 27, 45, 46, 47)]
    fields = [*code, c.sbrk(0), int(old[28]), begin, middle, middle, end, 0]
    plan = struct.pack("12QII", *fields, 0, 0xFFFFFFFF)
    if c.prctl(_SET_MM, _SET_MM_MAP, plan, ctypes.c_ulong(len(plan)), 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_MM, PR_SET_MM_MAP)")


def stay_with(starter: int) -> None:
    """Go to the namespaces of the process of the tests, not of a thread that left it.

    Whoever starts the first program may have gone to those of another host.
    """
    for name in ("net", "mnt"):
        own, theirs = (Path(f"/proc/{pid}/ns/{name}") for pid in ("self", starter))
        if own.readlink() != theirs.readlink():
            with theirs.open() as space:
                enter(space.fileno())


def enter(space: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(space, 0):
        raise OSError(ctypes.get_errno(), "setns")


def serve(orders: socket.socket, path: Sequence[str]) -> Order:
    """Fork as ordered until the other end closes; in a fork, return its order."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = socket.socket(fileno=to_high(orders.detach()))
    cloner = Cloner()
    while True:
        text, files, _, _ = socket.recv_fds(orders, _MOST_BYTES, _MOST_FILES)
        if not text:
            os._exit(0)
        pid = cloner.clone()
        if pid == 0:
            order = Order(**json.loads(text))
            try:
                become(order, path, files)
            except BaseException:
                orders.send(b"-1")
                raise
            # Now: whoever ends its group must not end ours.
            orders.send(b"%d" % os.getpid())
            orders.close()
            return order
        for file in files:
            os.close(file)
        if pid < 0:
            orders.send(b"%d" % pid)


def to_high(file: int) -> int:
    """Give a descriptor a number that no program is told of, and return that."""
    high = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(file)
    return high


def become(order: Order, path: Sequence[str], files: Sequence[int]) -> None:
    """Make this fork what the program of an order is when it begins."""
    kept = [to_high(file) for file in files]  # where no passed one has to be
    numbers = [0, 1, 2, *order.passed]
    for space in kept[len(numbers) :]:
        enter(space)
        os.close(space)
    for number, file in zip(numbers, kept, strict=False):
        os.dup2(file, number)
        os.close(file)
    if order.is_leader:
        os.setsid()
    else:
        os.setpgid(0, order.group)
    for limit, values in zip(LIMITS, order.limits, strict=True):
        resource.setrlimit(limit, values)
    os.sched_setaffinity(0, order.cores)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.env)
    show(order.args, order.env)
    sys.orig_argv = order.args
    sys.path[:] = [*python_path(order.env), *path]
    tempfile.tempdir = None
    sys.modules["numpy"].random.seed()


class UnsafeFlags:
    """`sys.flags` of a program without -P, which the zygote has; IPython looks."""

    safe_path = False

    def __init__(self) -> None:
        """Keep the others."""
        self._others = sys.flags

    def __getattr__(self, name: str) -> Any:
        """Return the value of another flag."""
        return getattr(self._others, name)


def begin(order: Order) -> None:
    """Set what is its own, not the zygote's: signals, output and threads of BLAS."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in order.ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, order.mask)
    is_unbuffered, now = bool(order.env.get(UNBUFFERED)), vars(sys)
    if now["stdout"].write_through != is_unbuffered:
        for file, name in enumerate(("stdout", "stderr"), 1):
            now[name] = now[f"__{name}__"] = reopened(now[name], file, is_unbuffered)
    os.execve = execve  # type: ignore[assignment]
    wanted = [order.env[name] for name in BLAS_THREADS if order.env.get(name)]
    n_threads = min([*map(int, wanted), len(order.cores)][0], len(order.cores))
    if n_threads > 1:
        from threadpoolctl import threadpool_limits

        threadpool_limits(n_threads)


def reopened(old: Any, file: int, is_unbuffered: bool) -> TextIOWrapper:
    """Return standard output or error as the interpreter opens them."""
    buffer = os.fdopen(file, "wb", 0 if is_unbuffered else -1, closefd=False)
    return TextIOWrapper(
        buffer,
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=not is_unbuffered and (file == 2 or buffer.isatty()),
        write_through=is_unbuffered,
    )


def bear(path: Sequence[str], *, forks_all: bool) -> Order | None:
    """Fork a zygote for this process; in what that one forks, return the order."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork():
        far.close()
        zygote.take(near)
        zygote.forks_all = forks_all
        install()
        return None
    near.close()
    os.setpgid(0, 0)  # a kernel that ends waits for all of its group to end before
    null = os.open(
        os.devnull, os.O_RDWR
    )  # or whoever reads what it prints waits for it
    for number in range(3):
        os.dup2(null, number)
    os.close(null)
    return serve(far, path)


def main_module(words: Sequence[str], *, is_safe: bool) -> tuple[ModuleType, Any]:
    """Return the program's `__main__` and its code, as the interpreter makes them."""
    main, (first, *rest) = ModuleType("__main__"), words
    script = os.path.abspath(first)  # noqa: PTH100  # keeps links
    folders = {"-m": str(Path.cwd()), "-c": ""}
    if not is_safe:
        sys.flags = UnsafeFlags()  # type: ignore[assignment]
        sys.path.insert(0, folders.get(first, str(Path(script).parent)))
    if first == "-m":
        _, spec, code = runpy._get_module_details(rest[0])  # type: ignore[attr-defined]
        vars(main).update(__spec__=spec, __file__=spec.origin, __package__=spec.parent)
        sys.argv = [spec.origin, *rest[1:]]
    elif first == "-c":
        sys.argv, code = ["-c", *rest[1:]], compile(rest[0], "<string>", "exec")
    else:
        sys.argv, code = [*words], compile(Path(script).read_bytes(), script, "exec")
        vars(main).update(__file__=script)
    return main, code


def carry_out(ordered: Order, path: Sequence[str]) -> None:
    """Run the program of this fork, which has become what it is to be."""
    order: Order | None = ordered
    while order is not None:
        current = order
        is_asked = current.has_zygote
        order = bear(path, forks_all=current.forks_all) if is_asked else None
    begin(current)
    execute(current)


def execute(order: Order) -> None:
    """Run a program in this process."""
    main, code = main_module(order.words, is_safe=order.is_safe)
    sys.modules["__main__"] = main
    exec(code, vars(main))


def execve(program: str, args: list[str], env: Mapping[str, str]) -> None:
    """Replace `os.execve` in a fork: go on as a program for which that has imported."""
    start = {"args": args, "env": env, "cwd": None, "pass_fds": ()}
    order = order_of(USUAL | start | {"start_new_session": False})
    if order is None or any(env.get(k) != value for k, value in KERNELS.items()):
        replaced(program, args, env)
    zygote.leave()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):  # the one that lists the folder is gone
            if fcntl.fcntl(int(name), fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                os.close(int(name))
    os.environ.clear()
    os.environ.update(env)
    show(args, env)
    sys.orig_argv = args
    begin(order)
    execute(order)
    # An interpreter that has imported all takes long to take itself apart.
    sys.modules["kit.forking"].leave()


if __name__ == "__main__":
    sys.modules["tests.zygote"] = sys.modules[__name__]  # for forks that import it
    stay_with(os.getppid())
    own = python_path(os.environ)
    leave_out_what_is_slow()
    for module in PRELOADED:
        importlib.import_module(module)
    show(sys.orig_argv, os.environ)  # fails here where the system does not allow it
    gc.collect()
    gc.freeze()  # else the first collection in each fork would copy all pages
    folders = [folder for folder in sys.path if folder not in own]
    carry_out(serve(socket.socket(fileno=int(sys.argv[1])), folders), folders)
