"""python -m dspark_tui"""

import sys

from dspark_tui.cli import main

sys.exit(main())
