"""Which stored experiences are near each other, and which contradict each other."""
