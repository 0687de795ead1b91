"""Compiling and launching kernels, and checking their arrays."""
