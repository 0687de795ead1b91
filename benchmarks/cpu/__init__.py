"""Measurements on a CPU."""
