"""crystalrl: replay memory that crystallizes."""

from crystalrl._version import __version__

__all__ = ["__version__"]
