"""Running, scoring and counting: result files, statistics and tables."""
