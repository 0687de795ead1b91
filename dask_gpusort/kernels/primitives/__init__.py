"""Device code that knows nothing of keys: scans, reductions, warp matching, sampling."""
