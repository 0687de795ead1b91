"""What our sorts are compared with: libraries of the host and of a GPU, CUB, PyTorch with NCCL.

::

    __main__     python -m benchmarks.baselines: the same keys, sorted by every library
    libraries    the libraries as jobs
    cub          CUB's sorts, called through ctypes (cub_baseline.cu)
    nccl         a sort on many GPUs with PyTorch and NCCL
"""
