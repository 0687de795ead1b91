"""Keys of more than 64 bits: columns of words, compared one after the other, and the ties of the first word."""
