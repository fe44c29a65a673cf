"""Which package an integration needs, said in one way."""

from __future__ import annotations

from importlib.util import find_spec


def require(package: str, extra: str) -> None:
    """Raise ImportError, saying what to install, if a package is missing."""
    try:
        found = find_spec(package) is not None
    except ValueError:  # its place in sys.modules is taken by something that is no module
        found = False
    if not found:
        raise ImportError(
            f"crystalrl.integrations.{extra}: wanted {package}, got none: pip install 'crystalrl[{extra}]'"
        )
