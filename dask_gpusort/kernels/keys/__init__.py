"""Keys on the device: order-preserving codes, comparisons, and steps of one thread an element."""
