"""Benchmarks: ``python -m benchmarks --help``; what they have shown is in docs/concepts/performance.md."""
