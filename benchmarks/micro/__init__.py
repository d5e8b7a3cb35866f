"""Benchmarks of single parts. Each prints ratios of paired, interleaved runs in one process; run them on an idle machine."""
