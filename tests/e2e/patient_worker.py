"""The worker, which stays for a minute after a failed load: whoever is to see why may be slow."""

from __future__ import annotations

import sys

from engine.__main__ import main
from engine.server import host
from tests.e2e.waiting import DEADLINE

if __name__ == "__main__":
    host.LAST_LOOK_SECONDS = DEADLINE
    sys.exit(main())
