"""The memory that crystallizes."""
