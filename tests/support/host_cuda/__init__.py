"""Runs CUDA kernels on the CPU: a host compiler builds the sources that NVRTC compiles, with a small header.

`HostDevice` replaces CuPy and the kernel loader, so the launches of the package run unchanged.
"""

from .build import compiler, forget_old
from .device import HostArray, HostDevice, KernelFault

__all__ = ["HostArray", "HostDevice", "KernelFault", "compiler", "forget_old"]
