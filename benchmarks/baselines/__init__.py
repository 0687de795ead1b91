"""Libraries with which our sorts are compared: on a host, on one GPU, and on several GPUs."""
