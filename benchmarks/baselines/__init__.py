"""CUB on one GPU, and PyTorch with NCCL on several: what our sorts are compared with there."""
