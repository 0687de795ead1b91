"""Sorts on several GPUs of one host, against PyTorch with NCCL: see `__main__` for the command.

::

    data       what is sorted, the input on the workers, and the check of a result
    measure    seconds, phases and memory; progress of a long run
"""
