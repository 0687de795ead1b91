"""CUDA kernels on the CPU: the sources that NVRTC compiles, built with a host compiler behind a small header.

`HostDevice` takes the place of CuPy and of the kernel loader, so that the package's own launches run as they are.
"""

from .build import compiler, forget_old
from .device import HostArray, HostDevice, KernelFault

__all__ = ["HostArray", "HostDevice", "KernelFault", "compiler", "forget_old"]
