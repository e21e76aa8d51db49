"""Benchmarks that anyone can run. Each prints ratios measured in one run: machines are noisy (docs/performance.md)."""
