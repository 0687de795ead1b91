"""The last pass of a most-significant-digit sort: one block sorts one bucket in shared memory."""
