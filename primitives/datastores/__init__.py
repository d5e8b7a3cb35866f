"""Stores that retrieval drafters search."""
