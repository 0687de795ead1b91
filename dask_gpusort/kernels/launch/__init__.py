"""Compiling and launching kernels, and the checks of their arrays."""
