"""A Python for the hosts of the tests, whose programs are forked instead of started.

    ssh --starts--> hosts.python --/run/python--> zygote at the host --fork--> program

A cluster over ssh starts a program and a fork server at each of its hosts, and what
these import takes seconds of a processor. The zygote at a host is a fork of that of
the tests, in the host's namespaces. `hosts.python` hands it the files of a program and
ends as that does; what the program starts is forked in turn, as `tests/zygote.py` says.
Only programs at the standard input are, such as those of ipyparallel; a process that
others watch must be the one that they have started.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

from kit.testing.task_process import until
from tests import zygote

STANDS_FOR = "STANDS_FOR"
_SOCKET = "/run/python"  # each host has a /run of its own
_SPACES = ("time", "net", "uts", "mnt", "pid")
_PROGRAM = f"""#!{sys.executable} -IS
import _socket, os, sys
status = b""
if not sys.argv[1:]:
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    try:
        near = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        near.connect({_SOCKET!r})
        near.sendmsg([b"fork"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
        status = near.recv(9)
    except OSError:
        pass
if status:
    os._exit(int(status))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
# An interpreter that takes itself apart takes three times as long as a fork.
_CODE = """import os, sys
sys.executable = {script!r}
exec(sys.stdin.read())
sys.stdout.flush()
os._exit(0)
"""


def write(path: Path) -> None:
    """Write the program that stands for Python at each host."""
    path.write_text(_PROGRAM)
    path.chmod(0o755)


def begin(init: int) -> subprocess.Popen[bytes]:
    """Start the zygote at the host whose first process is `init`."""
    # Who has threads, such as those of BLAS, cannot enter another time.
    env = os.environ | dict.fromkeys(zygote.BLAS_THREADS, "1")
    command = [sys.executable, "-m", __name__, str(init)]
    result = subprocess.Popen(command, env=env)
    until(Path(f"/proc/{init}/root{_SOCKET}").exists, 60)
    return result


def enter(init: int) -> None:
    """Go to the namespaces of a process; that of processes is for forks."""
    libc = ctypes.CDLL(None, use_errno=True)
    spaces = [os.open(f"/proc/{init}/ns/{name}", os.O_RDONLY) for name in _SPACES]
    for space in spaces:
        if libc.setns(space, 0):
            raise OSError(code := ctypes.get_errno(), os.strerror(code))
        os.close(space)
    platform._uname_cache = None  # type: ignore[attr-defined]  # another host's


def order_of(pid: int) -> zygote.Order | None:
    """Return what a process would run that has started `hosts.python`, None if itself.

    It says in `STANDS_FOR` which file it is that stands for Python, if it is another.
    """
    own = Path("/proc", str(pid))
    texts = [(own / name).read_bytes() for name in ("cmdline", "environ")]
    words, variables = (os.fsdecode(text).split("\0")[:-1] for text in texts)
    env = dict(line.split("=", 1) for line in variables)
    script = env.pop(STANDS_FOR, words[2])  # behind Python and its options
    if "PYTHONPATH" in env:  # there may be others of the modules
        return None
    return zygote.Order(
        args=[sys.executable],
        words=["-c", _CODE.format(script=script)],
        is_safe=False,
        env=env,
        folder=str((own / "cwd").readlink()),
        is_leader=True,
        group=0,
        limits=[resource.prlimit(pid, limit) for limit in zygote.LIMITS],
        cores=sorted(os.sched_getaffinity(pid)),
        mask=[],
        ignored=[],
        passed=[],
        has_zygote=True,
        forks_all=False,
    )


def serve(listener: socket.socket) -> tuple[zygote.Order, list[int]]:
    """Fork as asked for; return in each fork what it is to become, with its files."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who asks is told by a fork
    while True:
        asked, _ = listener.accept()
        if os.fork():
            asked.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        peer = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        order = order_of(struct.unpack("3i", peer)[0])
        if order is None:
            os._exit(0)
        _, files, _, _ = socket.recv_fds(asked, 9, 3)
        program = os.fork()
        if program == 0:
            asked.close()
            return order, files
        for file in files:
            os.close(file)
        status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        asked.send(b"%d" % (status if status >= 0 else 128 - status))
        os._exit(0)


def main() -> None:
    """Be the zygote of a host, until that ends; in a fork, run its program."""
    own = [str(Path.cwd()), *zygote.python_path(os.environ)]
    path = [folder for folder in sys.path if folder not in own]
    enter(int(sys.argv[1]))
    if child := os.fork():  # what has entered is not itself among the host's processes
        os.waitpid(child, 0)
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(_SOCKET)
        listener.listen()
        order, files = serve(listener)
    zygote.become(order, path, files)
    zygote.carry_out(order, path)


if __name__ == "__main__":
    main()
