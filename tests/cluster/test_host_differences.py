"""What hosts may differ in, and what the notebook says of it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from kit import arithmetic
from kit.arithmetic import Arithmetic
from kit.cluster.processes import host_calls
from kit.cluster.processes.host_calls import HostFacts
from kit.cluster.processes.launched_hosts import (
    check_addresses,
    check_versions,
    compare_arithmetic,
    pins,
)
from kit.errors import StartFailed

_MINOR = ".".join(platform.python_version_tuple()[:2])


def host(name: str, **changes: Any) -> HostFacts:
    facts = HostFacts(
        label=name,
        name=name,
        machine="boot-1 4026531833",
        slots=1,
        descriptors=1024,
        rank=0,
        address="10.0.0.1",
        folder="/tmp/psring-x",
        versions=host_calls.versions(),
        cores=2,
        arithmetic=Arithmetic(
            "2.4.6", "openblas 0.3.31 Zen", ("X86_V3", "X86_V4"), "AMD EPYC"
        ),
    )
    other = {
        name: changes.pop(name) for name in {"cpu", "blas", "simd"} & changes.keys()
    }
    facts = replace(facts, arithmetic=replace(facts.arithmetic, **other))
    return replace(facts, **changes)


def host_with(name: str, other: str) -> HostFacts:
    return host("far", versions=host_calls.versions() | {name: other})


def warned(*hosts: HostFacts) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare_arithmetic(hosts)
    return [str(warning.message) for warning in caught]


def test_host_with_another_version_is_refused_or_warned_of_with_both() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_versions(host_with("Python", f"{_MINOR}.99"))  # another patch will do
    for name, other, shown, ours in [
        ("Python", "3.9.2", "3.9", _MINOR),
        ("ipyparallel", "8.1", "8.1", version("ipyparallel")),
    ]:
        words = re.escape(f"far has {name} {shown}, the notebook has {ours};")
        with pytest.raises(StartFailed, match=f"^{words}"):
            check_versions(host_with(name, other))
    words = f"far has numpy 2.0.1, the notebook has {np.__version__}: results may"
    with pytest.warns(UserWarning, match=words):
        check_versions(host_with("numpy", "2.0.1"))


def test_two_machines_with_one_address_are_refused_with_their_names() -> None:
    check_addresses([host("a"), host("b")])  # one machine by two names
    check_addresses([host("a"), host("b", machine="boot-2 1", address="10.0.0.2")])

    with pytest.raises(StartFailed, match=r"a and b are two machines.* at 10\.0\.0\.1"):
        check_addresses([host("a"), host("b", machine="boot-2 4026531833")])


def test_hosts_with_other_kernels_are_named_with_their_cpus_equal_ones_not() -> None:
    assert warned(host("a"), host("b"), host("c")) == []
    (message,) = warned(
        host("a"), host("b", cpu="Xeon", blas="openblas 0.3.31 SkylakeX"), host("c")
    )

    assert "(a (AMD EPYC) has openblas 0.3.31 Zen; b (Xeon) has openblas" in message
    assert "os.environ['OPENBLAS_CORETYPE']" in message


def test_hosts_with_other_instructions_are_told_which_ones_to_leave_out() -> None:
    (message,) = warned(
        host("a", simd=("X86_V3", "X86_V4", "AVX512_ICL")),
        host("b", simd=("X86_V3",)),
        host("c", simd=("X86_V3", "X86_V4")),
    )

    assert (
        "a (AMD EPYC) has X86_V3 X86_V4 AVX512_ICL; b (AMD EPYC) has X86_V3;" in message
    )
    assert "os.environ['NPY_DISABLE_CPU_FEATURES'] = 'X86_V4,AVX512_ICL' " in message
    (message,) = warned(host("a"), host("b", simd=()))
    assert "b (AMD EPYC) has none of them" in message
    assert "= 'X86_V3,X86_V4' " in message


def test_variables_of_the_notebook_hold_on_all_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "X86_V4, AVX512_ICL")

    assert pins() == ["NPY_DISABLE_CPU_FEATURES=X86_V4,AVX512_ICL"]


@pytest.mark.slow
@pytest.mark.skipif(not arithmetic.simd(), reason="numpy uses the least of this CPU")
def test_instructions_that_numpy_is_told_not_to_use_are_not_those_it_uses() -> None:
    last = arithmetic.simd()[-1]
    program = "from kit import arithmetic; print(*arithmetic.simd())"

    result = subprocess.check_output(
        [sys.executable, "-c", program],
        env=os.environ | {"NPY_DISABLE_CPU_FEATURES": last},
        text=True,
    )

    assert result.split() == [*arithmetic.simd()[:-1]]
