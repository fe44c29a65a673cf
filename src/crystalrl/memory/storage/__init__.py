"""Where experiences are stored: the arena, its layout, and files."""
