"""Figures of stored results: `catalogue` lists them, `style` is how they look, `draw` draws them."""
