"""Its import lasts until the file exists that `$IMPORT_LASTS_UNTIL` names."""

import os
import threading
from pathlib import Path

while not Path(os.environ["IMPORT_LASTS_UNTIL"]).exists():
    threading.Event().wait(0.01)
