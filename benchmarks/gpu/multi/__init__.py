"""Sorts on several GPUs of one host, against PyTorch with NCCL: see `__main__` for the command."""
