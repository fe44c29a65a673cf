"""Benchmarks: `python -m benchmarks list`, `run NAME` and `render`."""
