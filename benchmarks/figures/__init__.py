"""Figures of stored results: `catalogue` lists them, `style` is how they look, `cpu` and `gpu` draw."""
