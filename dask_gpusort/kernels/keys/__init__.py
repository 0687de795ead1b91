"""Keys on the device: order-preserving codes, comparisons, and element-wise steps."""
