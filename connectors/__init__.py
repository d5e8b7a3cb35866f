"""The one decode loop, and the clock and the trace that it writes."""
