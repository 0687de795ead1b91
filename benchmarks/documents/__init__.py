"""Writes tables and figures into the documents, from stored results."""
