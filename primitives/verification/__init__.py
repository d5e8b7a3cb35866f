"""Verification primitives: each registered file is one verifier under its own name."""
