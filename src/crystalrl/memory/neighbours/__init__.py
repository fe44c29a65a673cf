"""Which stored states are near each other."""
