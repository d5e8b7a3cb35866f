"""Runs as one HTML page that works from disk: comparison table, plots, and a viewer of how each text was made."""
