"""Drafting primitives: each file registers one drafter under its own name."""
