"""Differences between the hosts of a cluster that are errors, or change the last bits.

OpenBLAS has a kernel for each family of CPUs, and numpy has some of its functions, such
as `exp`, once for each set of vector instructions. They sum and round in different
orders, so the same program may compute different last bits on different CPUs. Both
choose when they are loaded, and an environment variable restricts either choice.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence

from kit.cluster.processes import host_calls
from kit.cluster.processes.host_calls import HostFacts
from kit.errors import StartFailed

# OpenBLAS: the kernel to use. numpy: the instructions not to use.
_KERNEL, _DISABLED = "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"


def pins() -> list[str]:
    """Return the notebook's choice of kernels, as `NAME=VALUE` for all hosts."""
    values = {_KERNEL: os.environ.get(_KERNEL, "")}
    # numpy takes spaces and commas, but a launcher's command line splits at spaces.
    values[_DISABLED] = ",".join(
        os.environ.get(_DISABLED, "").replace(",", " ").split()
    )
    return [f"{name}={value}" for name, value in values.items() if value]


def check_versions(facts: HostFacts) -> None:
    """Raise `StartFailed` for versions that cannot exchange functions and messages.

    Warns of a numpy that may compute different bits.
    """
    here = host_calls.versions()
    for name, mine in here.items():
        theirs = facts.versions[name]
        if name == "Python":  # pickled code travels between its patch releases
            mine, theirs = (one.rpartition(".")[0] for one in (mine, theirs))
        if mine == theirs:
            continue
        both = f"{facts.name} has {name} {theirs}, the notebook has {mine}"
        if name == "numpy":
            warnings.warn(f"{both}: results may differ in the last bits", stacklevel=2)
        else:
            raise StartFailed(
                f"{both}; install the same there, or name another python."
            )


def check_addresses(hosts: Sequence[HostFacts]) -> None:
    """Raise `StartFailed` for two machines with one address: tasks could not connect.

    So it is with virtual machines that each have a private network behind their host's.
    """
    first: dict[str, HostFacts] = {}
    for facts in hosts:
        one = first.setdefault(facts.address, facts)
        if one.machine != facts.machine:
            raise StartFailed(
                f"{one.name} and {facts.name} are two machines, and each of them sees "
                f"itself at {facts.address}, so neither can be reached there by the "
                f"other. Give them a network in which each has its own address."
            )


def compare_kernels(hosts: Sequence[HostFacts]) -> None:
    """Warn where two hosts compute with different machine code, and say what helps."""
    if told := _unlike(hosts, lambda facts: facts.blas):
        warnings.warn(
            f"the hosts multiply matrices with different kernels ({told}): tasks on "
            f"different hosts may differ in the last bits of the same product. Where "
            f"all have OpenBLAS on CPUs of one family, set os.environ[{_KERNEL!r}] to "
            f"a kernel that all of them can run, such as the oldest of these, before "
            f"the cluster starts.",
            stacklevel=2,
        )
    if told := _unlike(hosts, lambda facts: " ".join(facts.simd) or "none of them"):
        some = dict.fromkeys(name for facts in hosts for name in facts.simd)
        missing = [
            name for name in some if not all(name in facts.simd for facts in hosts)
        ]
        warnings.warn(
            f"numpy uses different vector instructions on the hosts ({told}): tasks on "
            f"different hosts may differ in the last bits of exp, log, sin, tanh and "
            f"the like. Where the CPUs are of one family, set os.environ[{_DISABLED!r}]"
            f" = {','.join(missing)!r} before the cluster starts: then none uses what "
            f"some lack.",
            stacklevel=2,
        )


def _unlike(hosts: Sequence[HostFacts], of: Callable[[HostFacts], str]) -> str:
    """Name one host for each value of a fact; empty if all have the same value."""
    found: dict[str, HostFacts] = {}
    for facts in hosts:
        found.setdefault(of(facts), facts)
    if len(found) < 2:
        return ""
    return "; ".join(f"{one.name} ({one.cpu}) has {it}" for it, one in found.items())
