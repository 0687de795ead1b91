"""Compiling and launching kernels, and checking their arrays.

::

    arrays ── array_checks ──▶ Launch(source, instance, blocks, threads, arguments).run()
                                          └── loader: compiled once per device, with NVRTC through CuPy

- `array_checks`: checks of arguments, with errors that say what to give instead.
- `cxx_types`: names of types.
- `launch`: names of template instances, numbers of blocks, one launch, launches whose kernels compile side by side, and
  words that come back to the host.
- `loader`: sources, their constants, options and compiled kernels; `kernel_cache`: each is compiled once, on a pool of
  threads.
"""
