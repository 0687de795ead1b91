"""Code shared by tests: oracles, Hypothesis strategies, and a stand-in for a GPU."""
