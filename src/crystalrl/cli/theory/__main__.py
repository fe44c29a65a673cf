"""`python -m crystalrl.cli.theory`."""

import sys

from crystalrl.cli.theory import main

sys.exit(main())
