"""Entry points: each file is one command."""
