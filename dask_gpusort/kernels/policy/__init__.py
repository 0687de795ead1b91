"""Block sizes and limits: plain data, and what of it fits the current device."""
