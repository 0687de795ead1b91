"""Sorts on many GPUs of one host, beside PyTorch with NCCL: see `__main__` for the command.

::

    works      what is sorted
    data       the input on the workers, and whether a result is right
    measure    seconds, phases, memory; what a long run is doing
    report     the table, kept and shown
"""
