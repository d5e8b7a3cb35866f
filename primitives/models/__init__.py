"""Adapters over transformers: the only place that knows its caches, masks and positions."""
