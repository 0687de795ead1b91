"""Most-significant-digit radix sort: partitions, recursive partitions, and values that travel."""
