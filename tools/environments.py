"""Clean environments: a new interpreter with nothing installed, for the package as a user gets it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def build(folder: Path) -> tuple[Path, Path]:
    """Build the package; the wheel, which is built from the sdist, and the sdist."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, env=plain())
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def plain() -> dict[str, str]:
    """The variables of this process, without those that lead to other packages."""
    return {name: value for name, value in os.environ.items() if name not in HIDDEN}


@dataclass(frozen=True)
class Environment:
    """A virtual environment. Commands run in `home`, which is outside the sources."""

    folder: Path
    home: Path

    @classmethod
    def create(cls, folder: Path, python: str = sys.executable, below: Environment | None = None) -> Environment:
        """A new one; `below` lends its packages, so that large ones are installed once."""
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True, env=plain())
        made = cls(folder / "venv", folder)
        if below is not None:
            (made.packages / "below.pth").write_text(f"{below.packages}\n")
        return made

    @property
    def packages(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def install(self, *what: str) -> None:
        """Install with pip, in the versions with which the project is tested."""
        options = ["--quiet", "--disable-pip-version-check", "-c", str(ROOT / "constraints.txt")]
        done = self.run("pip", "install", *options, *what)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        words = [str(self.folder / "bin" / command), *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False, cwd=self.home, env=plain())

    def python(self, program: str) -> str:
        """What a program prints; RuntimeError if it fails."""
        done = self.run("python", "-c", program)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout
