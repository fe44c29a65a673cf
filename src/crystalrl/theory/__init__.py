"""The crystallization law, as far as it can be known: exact where possible, bounded and labelled elsewhere."""
