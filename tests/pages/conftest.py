import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # after other folders, which have modules of the same names
