"""Selections of a few keys of an array, which need no exchange."""
