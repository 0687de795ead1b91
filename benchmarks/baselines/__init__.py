"""Libraries with which our sorts are compared: on a host, on one GPU, and on several GPUs.

::

    __main__     python -m benchmarks.baselines: every library sorts the same keys
    libraries    the libraries as jobs
    cub          CUB's sorts, called through ctypes (cub_baseline.cu)
    nccl         a sort on many GPUs with PyTorch and NCCL
"""
