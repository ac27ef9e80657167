"""What several tests of this folder share is in `listed.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
