"""What all benchmarks share: the timer, stored results, generated blocks in the documentation."""
