"""Its import lasts until the file exists that `$IMPORT_LASTS_UNTIL` names, or until its
folder is deleted: a template that a failed test leaves ends with it."""

import os
import threading
from pathlib import Path

awaited = Path(os.environ["IMPORT_LASTS_UNTIL"])
while awaited.parent.exists() and not awaited.exists():
    threading.Event().wait(0.01)
