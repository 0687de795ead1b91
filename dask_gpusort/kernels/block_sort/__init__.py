"""The last pass of a most-significant-digit sort: one bucket a thread block, in shared memory."""
