"""Device code that does not depend on the kind of keys: scans, reductions, searches and samples."""
