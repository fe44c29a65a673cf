"""`python -m crystalrl` is the command `crystalrl`."""

from crystalrl.cli import main

main()
