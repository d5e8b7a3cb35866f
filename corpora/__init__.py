"""Data sets: where their rows come from, and one shape for all of them."""
