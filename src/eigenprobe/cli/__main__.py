"""``python -m eigenprobe.cli``."""

import sys

from . import main

sys.exit(main())
