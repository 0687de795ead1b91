"""Measurements, stored results, and the tables and figures generated from them. See README.md."""
