"""Benchmarks of single parts: ratios of paired, interleaved runs in one process, for an idle machine."""
