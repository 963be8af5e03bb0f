"""The compiled parts; without a C compiler they are left out, and Python does all."""

import numpy
from setuptools import Extension, setup

setup(
    ext_modules=[
        # What orders accesses to shared memory from Python.
        Extension("kit._memory_order", ["kit/memory_order.c"], optional=True),
        # The inner loop of an exchange over shared memory.
        Extension(
            "kit.exchange.execution._hops",
            ["kit/exchange/execution/hops.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],  # no fused sums: same bits
            optional=True,
        ),
        # What carries the bytes of an exchange between hosts, in threads of its own.
        Extension(
            "kit.exchange.ports._pump",
            ["kit/exchange/ports/pump.c"],
            extra_compile_args=["-O3"],
            optional=True,
        ),
        # What copies thousands of small gradients, by Python's stable ABI.
        Extension(
            "kit.training.worker._gather",
            ["kit/training/worker/gather.c"],
            include_dirs=[numpy.get_include()],
            extra_compile_args=["-O3"],
            py_limited_api=True,
            optional=True,
        ),
    ]
)
