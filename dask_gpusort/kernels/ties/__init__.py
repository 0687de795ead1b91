"""Tie groups of sorted keys."""
