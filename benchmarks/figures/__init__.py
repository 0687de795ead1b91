"""Figures, drawn from stored results: ``python -m benchmarks.figures``. `style` is how they look, `cpu` and `gpu` draw.

Nothing is measured here unless ``--measure`` asks for it, and what has no stored data is not drawn.
"""
