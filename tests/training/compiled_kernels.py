"""The kernels of a pretended GPU: their text, compiled by a C compiler."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from shutil import which
from typing import Any, ClassVar

import numpy as np

from tests.strict_arrays import StrictArray

COMPILER = which("cc")
_TYPES = {"float32": "float", "float64": "double"}
_CTYPES = {"float": ctypes.c_float, "double": ctypes.c_double}


class CompiledKernel:
    """What `cupy.ElementwiseKernel` makes, on arrays of the pretended GPU.

    Attributes:
        made: the texts of all, in order.
    """

    made: ClassVar[list[str]] = []

    def __init__(
        self, inputs: str, outputs: str, body: str, name: str, options: tuple[str, ...]
    ) -> None:
        assert options == ("--fmad=false",)
        self.made.append(body)
        named = [item.split() for item in inputs.split(", ")]
        self._inputs = [(_TYPES[kind], item) for kind, item in named]
        results = [item.split() for item in outputs.split(", ")]
        self._results = [(_TYPES[kind], item) for kind, item in results]
        # A number is in a place of its own, so that each step may give another one.
        head = ", ".join(
            f"{kind} *p_{item}, long n_{item}" for kind, item in self._inputs
        )
        tail = ", ".join(f"{kind} *p_{item}" for kind, item in self._results)
        read = "".join(
            f"const {kind} {item} = p_{item}[n_{item} ? i : 0];"
            for kind, item in self._inputs
        )
        begin = "".join(f"{kind} {item};" for kind, item in self._results)
        end = "".join(f"p_{item}[i] = {item};" for _, item in self._results)
        self._run = _built(
            f"#include <math.h>\nvoid run(long n, {head}, {tail}) "
            f"{{ for (long i = 0; i < n; i++) {{ {read} {begin} {body} {end} }} }}"
        )

    def __call__(self, *args: Any) -> None:
        values = args[: len(self._inputs)]
        keep, inputs = [], list[Any]()
        for (kind, _), value in zip(self._inputs, values, strict=True):
            is_array = isinstance(value, StrictArray)
            host = value.host if is_array else np.array([value], value.dtype)
            assert _TYPES[str(host.dtype)] == kind
            keep.append(host)
            inputs += [ctypes.c_void_p(host.ctypes.data), ctypes.c_long(is_array)]
        outs = [out.host for out in args[len(self._inputs) :]]
        for (kind, _), out in zip(self._results, outs, strict=True):
            assert _TYPES[str(out.dtype)] == kind
        inputs += [ctypes.c_void_p(out.ctypes.data) for out in outs]
        self._run(ctypes.c_long(outs[0].size), *inputs)


def _built(source: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="kit-kernel-") as folder:
        text, built = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        text.write_text(source)
        flags = ["-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
        command = [str(COMPILER), *flags, str(text), "-o", str(built), "-lm"]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(built)).run  # it stays mapped without its file
