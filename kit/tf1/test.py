"""`tf.test`: which devices this process has. For tests of your own, use pytest."""

from __future__ import annotations

from typing import Any

from kit.tf1.not_offered import refusing
from kit.tf1.python.client.device_lib import list_local_devices


def gpu_device_name() -> str:
    """Return '/device:GPU:0', or '' where there is none."""
    names = [
        device.name for device in list_local_devices() if device.device_type == "GPU"
    ]
    return names[0] if names else ""


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: Any = None
) -> bool:
    """Return whether there is a GPU; all of them are CUDA's."""
    return bool(gpu_device_name())


def is_built_with_cuda() -> bool:
    """Return whether operations can run on a GPU of CUDA: where one is found."""
    return is_gpu_available()


__getattr__ = refusing("test")
