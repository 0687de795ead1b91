"""The papers' own sorts, one file an algorithm."""
