"""What tests share: oracles, Hypothesis strategies, and doubles of a GPU."""
