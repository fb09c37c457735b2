"""Whole-process benchmarks against a hand-written stdlib loop; ``python -m tests.bench`` prints the
table."""
