"""Measurements on one GPU and on several."""
