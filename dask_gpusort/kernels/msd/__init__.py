"""Most-significant-digit sort: partition by sampled buckets, level by level, until a bucket fits a block."""
