"""Optional packages: what to install if one is missing."""

from __future__ import annotations

from importlib.util import find_spec


def installed(package: str) -> bool:
    """Whether a package can be imported; imports nothing."""
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):  # ValueError: sys.modules holds something that is not a module
        return False


def require(what: str, *packages: str, extra: str) -> None:
    """Raise ModuleNotFoundError with the pip line if any package is missing; imports nothing."""
    missing = [package for package in packages if not installed(package)]
    if missing:
        wanted = f"the package{'s' * (len(missing) > 1)} {', '.join(missing)}"
        line = f"{what}: wanted {wanted}, got none: pip install 'crystalrl[{extra}]'"
        raise ModuleNotFoundError(line, name=missing[0])
