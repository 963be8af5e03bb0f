"""What this process computes with, and how many threads BLAS has here.

The last bits of a product of matrices depend on the kernel that BLAS has chosen for
the CPU, and on the number of its threads: each sums a part. Those of `exp` and the
like depend on the vector instructions that numpy uses. So all tasks of a training
compute with one number of threads, which belongs to the training as its seed does: it
is recorded, and set again where the training goes on or is computed again.

BLAS keeps the number for the whole process, not for a thread. What needs another one
meanwhile, in another thread, is refused.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy
from threadpoolctl import ThreadpoolController

from kit.errors import FailedPreconditionError
from kit.message_fields import check, list_of, text, whole

#: More than any BLAS is built for; what a file names must be possible.
MOST_THREADS: Final = 1024
#: The variables that libraries read when they are loaded.
VARIABLES: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
# OpenBLAS: the kernel to use. numpy: the instructions not to use.
KERNEL: Final = "OPENBLAS_CORETYPE"
DISABLED: Final = "NPY_DISABLE_CPU_FEATURES"
# What a step function may compute with besides numpy.
_LIBRARIES: Final = ("torch", "jax")
_FIELDS: Final = {
    "numpy": text(100),
    "blas": text(1000),
    "simd": list_of(text(100), 200),
    "cpu": text(1000),
    "threads": whole(0, MOST_THREADS),
}


@dataclass(frozen=True)
class Arithmetic:
    """What decides the last bits of what a process computes.

    Attributes:
        numpy: its version.
        blas: the library, its version, and the kernel that it chose for this CPU.
        simd: the vector instructions that numpy uses beyond its baseline.
        cpu: the model of the CPU.
        threads: how many BLAS computes with; 0 where that is not known.
    """

    numpy: str
    blas: str
    simd: tuple[str, ...]
    cpu: str
    threads: int = 0

    def to_plain(self) -> dict[str, Any]:
        """Return it as data that JSON can carry."""
        return {**asdict(self), "simd": list(self.simd)}

    @classmethod
    def from_plain(cls, plain: object) -> Arithmetic:
        """Rebuild it from `to_plain`; `InvalidArgumentError` for anything else."""
        values = check("arithmetic", _FIELDS, plain)
        return cls(**{**values, "simd": tuple(values["simd"])})


def here(n_threads: int | None = None) -> Arithmetic:
    """Return what this process computes with; the number of threads may be another."""
    n = threads() if n_threads is None else n_threads
    return Arithmetic(numpy.__version__, blas(), simd(), cpu(), n)


def libraries() -> dict[str, str]:
    """Return the versions of torch and jax, of those that this process has loaded."""
    loaded = {name: sys.modules.get(name) for name in _LIBRARIES}
    return {
        name: str(getattr(module, "__version__", ""))
        for name, module in loaded.items()
        if module is not None
    }


def blas() -> str:
    """Return the BLAS that numpy uses here, such as `openblas 0.3.31 Zen`."""
    words = ("internal_api", "version", "architecture")
    return ", ".join(
        " ".join(str(library.get(word) or "") for word in words)
        for library in _libraries()
    )


def simd() -> tuple[str, ...]:
    """Return the vector instructions that numpy found here, by its names for them."""
    config: Any = numpy.show_config(mode="dicts")
    return tuple(config.get("SIMD Extensions", {}).get("found", ()))


@cache
def cpu() -> str:
    """Return the CPU's model as Linux names it, or else only its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text()
    except OSError:
        lines = ""
    model = re.search(r"^model name\s*:\s*(.+)$", lines, re.MULTILINE)
    return model[1] if model else platform.machine()


def _libraries() -> Sequence[Mapping[str, Any]]:
    """Return what threadpoolctl knows of numpy's BLAS; scipy may have one of its own.

    Where it cannot be told whose they are, return all.
    """
    libraries = _controller().select(user_api="blas").info()
    own = [
        library
        for library in libraries
        if Path(library["filepath"]).parent.name == "numpy.libs"
    ]
    return own or libraries


class _Loaded(ctypes.Structure):
    """What `dl_iterate_phdr` says of a library: its dl_phdr_info, whose end counts."""

    _fields_ = (
        ("addr", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("phdr", ctypes.c_void_p),
        ("phnum", ctypes.c_uint16),
        ("adds", ctypes.c_ulonglong),
        ("subs", ctypes.c_ulonglong),
    )


def _read_counts(library: Any, _: int, counts: list[int]) -> int:
    counts += library[0].adds, library[0].subs
    return 1  # no other is asked: each knows how often any was loaded


_iterate: Any = ctypes.CDLL(None).dl_iterate_phdr
_reading = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.py_object
)(_read_counts)


def _controller() -> ThreadpoolController:
    """Return what sets the threads of all libraries that are loaded now.

    To look for them takes milliseconds where a process has many, and each member of a
    training would do so several times: they are looked for when others were loaded.
    """
    counts = list[int]()
    _iterate(_reading, ctypes.py_object(counts))
    return _controller_after(*counts)


@lru_cache(maxsize=1)
def _controller_after(adds: int, subs: int) -> ThreadpoolController:
    return ThreadpoolController()


def differences(
    hosts: Sequence[tuple[str, Arithmetic]], *, with_threads: bool = False
) -> list[str]:
    """Return what is not the same on named hosts or tasks, each with what helps.

    Not the numbers of threads, unless asked: a training has one for all.
    """
    wrong = []
    if with_threads and (words := _unlike(hosts, lambda host: str(host.threads))):
        least = min(facts.threads for _, facts in hosts)
        wrong.append(
            f"BLAS has different numbers of threads ({words}): the last bits of a "
            f"product may depend on which of them computes it. Start all programs with "
            f"OPENBLAS_NUM_THREADS={least}."
        )
    if words := _unlike(hosts, lambda host: host.numpy):
        wrong.append(
            f"numpy has different versions ({words}): results may differ in the last "
            f"bits. Install the same."
        )
    if words := _unlike(hosts, lambda host: host.blas):
        wrong.append(
            f"matrices are multiplied with different kernels ({words}): the same "
            f"product may differ in the last bits. Where all have OpenBLAS on CPUs of "
            f"one family, set os.environ[{KERNEL!r}] to a kernel that all of them can "
            f"run, such as the oldest of these, before numpy is imported or the "
            f"cluster starts."
        )
    if words := _unlike(hosts, lambda host: " ".join(host.simd) or "none of them"):
        some = dict.fromkeys(name for _, facts in hosts for name in facts.simd)
        missing = [
            name for name in some if not all(name in facts.simd for _, facts in hosts)
        ]
        wrong.append(
            f"numpy uses different vector instructions ({words}): exp, log, sin, tanh "
            f"and the like may differ in the last bits. Where the CPUs are of one "
            f"family, set os.environ[{DISABLED!r}] = {','.join(missing)!r} before "
            f"numpy is imported or the cluster starts: then none uses what some lack."
        )
    return wrong


def _unlike(
    hosts: Sequence[tuple[str, Arithmetic]], of: Callable[[Arithmetic], str]
) -> str:
    """Name one host for each value of a fact; empty if all have the same value."""
    first: dict[str, tuple[str, Arithmetic]] = {}
    for name, facts in hosts:
        first.setdefault(of(facts), (name, facts))
    if len(first) < 2:
        return ""
    return "; ".join(
        f"{name} ({item.cpu}) has {it}" for it, (name, item) in first.items()
    )


# --------------------------------------------------------------------------------------
# The number of threads.


_guard = threading.Lock()
# Who computes with which number now: the thread, and the number. Blocks of one thread
# may be nested; those of several threads have one number.
_users: list[tuple[int, int]] = []
_before: Any = None  # how to set what was set before the first of them
_own = 0  # the number before the first of them


def threads() -> int:
    """Return how many threads BLAS has by the setting of this process; 0: unknown.

    The setting is that of a variable such as OPENBLAS_NUM_THREADS when numpy was
    loaded, or of `threadpoolctl.threadpool_limits`. What a training or a replay needs
    meanwhile is none.
    """
    with _guard:
        return _own if _users else _threads()


def _threads() -> int:
    return max((int(library["num_threads"]) for library in _libraries()), default=0)


def set_threads(n: int) -> None:
    """Set the number for this process and what it loads or starts from now on."""
    os.environ.update(dict.fromkeys(VARIABLES, str(n)))
    if _threads() != n:
        _limit(n)
        _let_go()


@contextmanager
def bound_to(n: int) -> Iterator[None]:
    """Compute with `n` threads until the end of the block; 0 changes nothing.

    Raises `FailedPreconditionError` while another thread needs another number, and if
    BLAS cannot have so many. Takes less than 0.1 ms.
    """
    if not n:
        yield
        return
    user = threading.get_ident(), n
    _enter(user)
    try:
        yield
    finally:
        _leave(user)


def _enter(user: tuple[int, int]) -> None:
    global _before, _own  # BLAS has one number for the process, so this has one too
    me, n = user
    with _guard:
        others = {other for thread, other in _users if thread != me} - {n}
        if others:
            raise FailedPreconditionError(
                f"what is to be computed needs {n} BLAS threads, and a training or a "
                f"replay in this process computes with {others.pop()}: their number "
                f"holds for the whole process. Wait for its end, or use another "
                f"process."
            )
        if not _users:
            _own = _threads()
        limits = _limit(n)
        if (is_set := _threads()) not in (0, n):
            limits.restore_original_limits()
            raise FailedPreconditionError(
                f"what is to be computed needs {n} BLAS threads, and {blas()} of this "
                f"process can be set to {is_set} at most: the last bits of products "
                f"would be others. Use a BLAS like that of before."
            )
        if not _users:
            _before = limits
        _users.append(user)


def _leave(user: tuple[int, int]) -> None:
    with _guard:
        # The last of its kind: an outer block of the same thread has gone in earlier.
        del _users[len(_users) - 1 - _users[::-1].index(user)]
        if _users:
            _limit(_users[-1][1])
        else:
            _let_go()
            _before.restore_original_limits()
            _let_go()


def _limit(n: int) -> Any:
    _let_go()
    return _controller().limit(limits=n)


def _let_go() -> None:
    """Let any thread set the number: threadpoolctl 3.8 ignores all but one, silently.

    That is the first one, as long as it lives; the main thread, if it holds a limit.
    """
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
