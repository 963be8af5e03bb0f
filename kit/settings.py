"""Settings that can be changed without code: one frozen `Settings`, from `current()`.

    KIT_STEP_DEADLINE_S=60            the environment, read once, at the first use
    with settings(step_deadline_s=5)  a block of code, and what it calls or awaits
    Settings(step_deadline_s=5)       a value, to be handed to another task as JSON

A block's settings apply to its thread and to the coroutines started in it. A new thread
begins with those of the environment, so code that starts a thread passes the value on.
The settings of a running process cannot be changed from outside.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from kit.errors import InvalidArgumentError
from kit.handles import handle

Value: TypeAlias = bool | int | float | str

TRANSPORTS = ("auto", "unix", "tcp", "mpi")
ENCRYPTIONS = ("aes-gcm", "tls")
_CHOICES = {"transport": TRANSPORTS, "encryption": ENCRYPTIONS}
_LEAST = {"streams": 1, "bucket_bytes": 0, "digest_every": 0, "trace_rows": 1}
_MOST = {"streams": 8}
_PREFIX = "KIT_"
_SWITCH = {"1": True, "true": True, "yes": True, "on": True}
_SWITCH |= {"0": False, "false": False, "no": False, "off": False}


# It stands in whatever shows a cluster, a server or a training without encryption.
INSECURE: Final = "insecure=True: no encryption"


@handle
@dataclass(frozen=True)
class Settings:
    """The tunable values, all in one object: a training's tasks agree on them as one.

    Names that end in `_s` are seconds, above 0 and finite.

    Parameters
    ----------
    connect_deadline_s : float, default 5.0
        How long dialling another task may take.
    handshake_deadline_s : float, default 5.0
        How long the two ends of a new connection may take to prove who they are.
    call_deadline_s : float, default 10.0
        How long a control call to another task may take.
    step_deadline_s : float, default 30.0
        How long one step of a training may take before it fails. A worker that could
        be spared (`aggregate`) is then done without.
    run_deadline_s : float, default 30.0
        How long a run of a session may wait for other tasks, and for tasks that are not
        up yet.
    still_waiting_s : float, default 10.0
        How often a run of `kit.tf1` that has no limit says on standard error what it
        waits for.
    start_deadline_s : float, default 60.0
        How long a cluster may take to come up.
    stop_deadline_s : float, default 10.0
        How long tasks may take to stop before they are killed.
    save_deadline_s : float, default 300.0
        How long writing a checkpoint may take before it is given up; the training goes
        on meanwhile.
    heartbeat_s : float, default 0.5
        How often tasks send each other a sign of life; at least twenty times in
        `dead_after_s`, see `beat_s`.
    suspect_after_s : float, default 2.0
        Silence after which a task is shown as suspect; more than `heartbeat_s`.
    dead_after_s : float, default 10.0
        Silence after which a task counts as dead; not less than `suspect_after_s`. A
        connection that is cut for less than nine tenths of it does not end a training,
        if `step_deadline_s` is twice as long.
    lease_s : float, default 15.0
        How long tasks go on without a sign of life from the process that started them,
        before they save their state and end.
    transport : {"auto", "unix", "tcp", "mpi"}
        How tasks on one machine are linked; "auto" takes the best that both ends have.
        With "mpi" gradients and parameters travel over MPI, between all tasks: each
        must be a rank of mpiexec, and nothing of it is encrypted.
    insecure : bool, default False
        Allow TCP without TLS on addresses that other machines can reach. Anybody on the
        network can then read and change everything and act as this user in every task:
        run any op of a session, read and write any of the user's files.
    encryption : {"aes-gcm", "tls"}
        For data links between hosts, after mutual TLS 1.3 has authenticated both ends:
        records of AES-256-GCM with keys exchanged inside TLS, about twice as fast as
        Python's TLS; or TLS throughout. All tasks must have the same.
    streams : int, default 1
        Over how many TCP connections side by side two tasks on different hosts exchange
        messages of 256 KiB and more, up to 8; for links of more than 25 Gbit/s, and for
        networks that bound the speed of each connection. Each has threads of its own,
        for which a task needs cores and compiled code. All tasks must have the same.
    checksum : bool, default True
        Check the checksum of every frame.
    bucket_bytes : int, default 0
        Size in bytes of the pieces in which gradients are sent; 0 chooses it by the
        number of workers. With 2**19, links of 1 Gbit/s and less are better used.
    digest_every : int, default 100
        After how many synchronous steps the members compare digests of their
        parameters, besides every epoch and every checkpoint; 0 compares only at those.
        Each takes about a tenth of a nanosecond per byte. Damage that spreads to all
        members equally in between is not found; 1 finds the most.
    nan_loss : bool, default False
        Let a training go on when the loss of a step is NaN. It ends with `NotFinite`
        otherwise, unless it has a `NanTensorHook`, which then decides.
    native : bool, default True
        Use compiled code, where it was built, for exchanges over shared memory and for
        thousands of parameters. Otherwise Python does the same.
    trace : bool, default True
        Record every transfer and span; totals are counted in any case.
    trace_rows : int, default 200,000
        How many rows of each table a trace keeps, and a task until they are fetched; of
        older steps only some (see `Trace.kept`). 200,000 rows of all tables take 40 MB.
    runtime_dir : str, default ""
        Folder for sockets, and for those that clusters make; empty for the system's
        default. Its path must be short.
    crash : str, default ""
        Crash points to arm, for tests of faults (see `kit.testing`); empty for none.
    history : str, default ""
        Folder in which each task writes its history of events; empty for none.

    Raises
    ------
    InvalidArgumentError
        A value is out of its range; the message names field and value.

    Examples
    --------
    >>> Settings(step_deadline_s=5).step_deadline_s
    5.0
    """

    connect_deadline_s: float = 5.0
    handshake_deadline_s: float = 5.0
    call_deadline_s: float = 10.0
    step_deadline_s: float = 30.0
    run_deadline_s: float = 30.0
    still_waiting_s: float = 10.0
    start_deadline_s: float = 60.0
    stop_deadline_s: float = 10.0
    save_deadline_s: float = 300.0
    heartbeat_s: float = 0.5
    suspect_after_s: float = 2.0
    dead_after_s: float = 10.0
    lease_s: float = 15.0
    transport: str = "auto"
    insecure: bool = False
    encryption: str = "aes-gcm"
    streams: int = 1
    checksum: bool = True
    bucket_bytes: int = 0
    digest_every: int = 100
    nan_loss: bool = False
    native: bool = True
    trace: bool = True
    trace_rows: int = 200_000
    runtime_dir: str = ""
    crash: str = ""
    history: str = ""

    def __post_init__(self) -> None:
        for name, default in _DEFAULTS.items():
            own_value = getattr(self, name)
            value = _as_float(own_value) if isinstance(default, float) else own_value
            if not _fits(name, value):
                raise InvalidArgumentError(
                    f"setting {name} must be {_expected(name)}, not {own_value!r}."
                )
            object.__setattr__(self, name, value)
        if not self.heartbeat_s < self.suspect_after_s <= self.dead_after_s:
            raise InvalidArgumentError(
                f"settings must keep heartbeat_s < suspect_after_s <= dead_after_s, "
                f"not {self.heartbeat_s}, {self.suspect_after_s}, {self.dead_after_s}; "
                f"change them together."
            )
        is_tls = self.encryption == "tls" and not self.insecure
        if self.streams > 1 and (is_tls or self.transport == "mpi"):
            raise InvalidArgumentError(
                f"setting streams must be 1 with encryption='tls' or transport='mpi', "
                f"not {self.streams}."
            )

    @property
    def warning(self) -> str:
        """What everything shows that uses these settings; empty if it is encrypted.

        >>> Settings().warning, Settings(insecure=True).warning
        ('', 'insecure=True: no encryption')
        """
        return INSECURE if self.insecure else ""

    @property
    def beat_s(self) -> float:
        """Seconds between signs of life: half of the tenth that a cut line leaves.

        >>> Settings().beat_s, Settings(dead_after_s=5).beat_s
        (0.5, 0.25)
        """
        return min(self.heartbeat_s, self.dead_after_s / 20)

    @property
    def redial_after_s(self) -> float:
        """Seconds that a sign of life waits for its answer before we dial again.

        >>> Settings().redial_after_s, Settings(suspect_after_s=10).redial_after_s
        (2.0, 4.0)
        """
        return min(self.suspect_after_s, 0.4 * self.dead_after_s)

    def replace(self, **changes: Value) -> Settings:
        """Return these settings with some values changed.

        Parameters
        ----------
        **changes
            Fields by name.

        Raises
        ------
        TypeError
            There is no such field; the message names the nearest one.
        InvalidArgumentError
            A value is out of range.

        Examples
        --------
        >>> Settings().replace(transport="tcp").transport
        'tcp'
        """
        for name in changes:
            if name not in _DEFAULTS:
                raise TypeError(f"there is no setting {name!r}; {_suggestion(name)}")
        return Settings(**(self.as_plain() | changes))  # type: ignore[arg-type]

    def as_plain(self) -> dict[str, Value]:
        """Return all values by name, as data that JSON can carry.

        >>> Settings().as_plain()["bucket_bytes"]
        0
        """
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Value]) -> Settings:
        """Rebuild the settings from `as_plain`; missing ones take their defaults.

        Raises as `replace` does.

        >>> Settings.from_plain({"trace": False}).trace
        False
        """
        return cls().replace(**plain)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Return the defaults as changed by the `KIT_*` variables.

        Warns about a variable that is not a setting but resembles one; ignores others.

        Parameters
        ----------
        environ : mapping of str to str
            Such as `os.environ`. Switches read 1/0, true/false, yes/no, on/off.

        Raises
        ------
        InvalidArgumentError
            A value cannot be read; the message names the variable and what is expected.

        Examples
        --------
        >>> Settings.from_environment({"KIT_CHECKSUM": "off"}).checksum
        False
        """
        changes = {
            name: _parsed(name, environ[variable])
            for name in _DEFAULTS
            if (variable := _PREFIX + name.upper()) in environ
        }
        _warn_of_slips(environ)
        return cls().replace(**changes)


_DEFAULTS: dict[str, Value] = {
    field.name: getattr(Settings, field.name) for field in dataclasses.fields(Settings)
}
_blocks: ContextVar[Settings | None] = ContextVar("kit_settings", default=None)


def current() -> Settings:
    """Return the settings that apply here: the innermost block's or the environment's.

    Raises `InvalidArgumentError` if the environment's cannot be read.
    """
    return _blocks.get() or _of_the_process()


@contextmanager
def settings(**changes: Value) -> Iterator[Settings]:
    """Change some settings for a block of code. Blocks nest.

    Parameters
    ----------
    **changes
        Fields of `kit.Settings` by name. Values that no block sets come from variables
        such as `KIT_STEP_DEADLINE_S`, or are the defaults.

    Yields
    ------
    Settings
        The settings that apply in the block.

    Raises
    ------
    TypeError
        There is no such setting; the message names the nearest one.
    InvalidArgumentError
        A value is out of range.

    Examples
    --------
    >>> with settings(trace=False) as inside:
    ...     current() is inside, current().trace
    (True, False)
    """
    token = _blocks.set(current().replace(**changes))
    try:
        yield current()
    finally:
        _blocks.reset(token)


@cache
def _of_the_process() -> Settings:
    return Settings.from_environment(os.environ)


def _as_float(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)  # 5 and 5.0 must travel alike
    return value


def _fits(name: str, value: object) -> bool:
    if type(value) is not type(_DEFAULTS[name]):
        return False
    if isinstance(value, float):
        return math.isfinite(value) and value > 0
    if name in _CHOICES:
        return value in _CHOICES[name]
    if isinstance(value, int) and name in _LEAST:
        return _LEAST[name] <= value <= _MOST.get(name, value)
    return True


def _expected(name: str) -> str:
    default = _DEFAULTS[name]
    if isinstance(default, bool):
        return "a switch: True or False (in the environment 1, 0, yes, no, on or off)"
    if isinstance(default, float):
        return "a number of seconds above 0"
    if isinstance(default, int):
        most = f" and at most {_MOST[name]}" if name in _MOST else ""
        return f"a whole number, at least {_LEAST[name]}{most}"
    return " or ".join(_CHOICES[name]) if name in _CHOICES else "a text"


def _parsed(name: str, text: str) -> Value:
    default = _DEFAULTS[name]
    try:
        if isinstance(default, bool):
            value: Value = _SWITCH[text.strip().lower()]
        else:
            value = type(default)(text)
    except (KeyError, ValueError):
        value = text
    if not _fits(name, value):
        raise InvalidArgumentError(
            f"the environment variable {_PREFIX}{name.upper()} must be "
            f"{_expected(name)}, not {text!r}."
        )
    return value


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), _DEFAULTS, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(_DEFAULTS)}."


def _warn_of_slips(environ: Mapping[str, str]) -> None:
    for variable in environ:
        name = variable.removeprefix(_PREFIX).lower()
        if variable.startswith(_PREFIX) and name not in _DEFAULTS:
            near = difflib.get_close_matches(name, _DEFAULTS, n=1, cutoff=0.85)
            if near:
                warnings.warn(
                    f"{variable} is not a setting and has no effect; "
                    f"did you mean {_PREFIX}{near[0].upper()}?",
                    stacklevel=3,
                )
