"""`python -m crystalrl.theory_cli`."""

import sys

from crystalrl.theory_cli import main

sys.exit(main())
