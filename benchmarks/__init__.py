"""Benchmarks: ``python -m benchmarks --help``; docs/concepts/performance.md has the results."""
