"""Keys of more than 64 bits, as words of 64 bits."""
