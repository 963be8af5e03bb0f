"""Finding the GPUs of a process, with a module that stands for cupy."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kit import arrays
from kit.errors import FailedPreconditionError
from tests.strict_arrays import strict

find = arrays.all_gpus.__wrapped__


class PretendedCupy(ModuleType):
    """What is used of cupy; notes which device and stream are entered, in order."""

    def __init__(self, n_devices: int | None) -> None:
        super().__init__("cupy")
        self.log: list[str] = []
        self._n_devices = n_devices
        self.cuda = SimpleNamespace(
            Device=self._device,
            Stream=self._stream,
            runtime=SimpleNamespace(getDeviceCount=self._count),
        )

    def _count(self) -> int:
        if self._n_devices is None:
            raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return self._n_devices

    @contextmanager
    def _device(self, number: int) -> Iterator[None]:
        self.log.append(f"device {number}")
        yield
        self.log.append(f"back from device {number}")

    def _stream(self) -> Any:
        return _Stream(self.log)

    def asarray(self, x: Any) -> Any:
        self.log.append("asarray")
        return strict.asarray(x)


class _Stream:
    def __init__(self, log: list[str]) -> None:
        self._log = log

    def __enter__(self) -> None:
        self._log.append("stream")

    def __exit__(self, *_: object) -> None:
        self._log.append("back from stream")

    def synchronize(self) -> None:
        self._log.append("wait")


@pytest.mark.parametrize("n_devices", [None, 0, 2])
def test_gpus_are_as_many_as_the_driver_counts(
    n_devices: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", PretendedCupy(n_devices))

    assert len(find()) == (n_devices or 0)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (
            "/dev/no-such-driver",
            ["none of /dev/no-such-driver is on this machine", 'device="cpu"'],
        ),
        ("/dev/null", [f"{sys.executable} -m pip install cupy-cuda12x"]),
    ],
)
def test_without_a_driver_or_cupy_there_is_no_gpu_and_it_is_said_what_to_do(
    driver: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.setattr(arrays, "DRIVERS", (driver,))
    monkeypatch.setattr(arrays, "find_spec", looked.append)

    assert find() == ()
    assert looked == (["cupy"] if driver == "/dev/null" else [])
    assert all(part in refusal(monkeypatch) for part in words)


def test_gpus_are_found_without_a_context_on_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cupy = PretendedCupy(2)
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    gpus = find()

    assert cupy.log == []
    gpus[1].wait()
    assert cupy.log == ["device 1", "back from device 1", "wait"]


def test_arrays_come_and_go_on_the_devices_own_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cupy = PretendedCupy(2)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    gpu = find()[1]
    host = np.arange(3.0)
    gpu.wait()
    cupy.log.clear()

    there = gpu.put(host)
    went = list(cupy.log)
    back = gpu.get(there)

    inside = went.index("asarray")
    assert went[:inside] == ["device 1", "stream"]
    assert went[inside + 1 :] == ["back from stream", "back from device 1"]
    assert cupy.log[len(went) :][:3] == ["device 1", "stream", "wait"]
    assert isinstance(back, np.ndarray)
    assert np.array_equal(back, host)


def refusal(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(arrays, "all_gpus", find)
    with pytest.raises(FailedPreconditionError) as caught:
        arrays.gpu(0)
    return str(caught.value)


@pytest.mark.parametrize(
    ("n_devices", "words"),
    [
        (None, "RuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected."),
        (0, "cupy counts 0. CUDA_VISIBLE_DEVICES is '7'. Unset it, or name a card"),
    ],
)
def test_what_cupy_says_is_shown_with_the_cards_that_are_visible(
    n_devices: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", PretendedCupy(n_devices))
    monkeypatch.setattr(arrays, "DRIVERS", ("/dev/null",))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")

    text = refusal(monkeypatch)

    assert words in text
    assert "CUDA_VISIBLE_DEVICES is '7'" in text


def test_workers_share_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", PretendedCupy(2))
    gpus = find()
    monkeypatch.setattr(arrays, "all_gpus", lambda: gpus)

    assert [arrays.gpu(number) for number in range(3)] == [*gpus, gpus[0]]


def test_a_process_that_was_forked_from_one_with_a_gpu_is_told_to_start_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", PretendedCupy(1))
    gpus = find()
    monkeypatch.setattr(arrays, "all_gpus", lambda: gpus)
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            arrays.gpu(0)
        except FailedPreconditionError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)

    with os.fdopen(reading) as file:
        text = file.read()

    os.waitpid(child, 0)
    assert "was forked from one that uses a GPU" in text
    assert 'get_context("spawn")' in text
