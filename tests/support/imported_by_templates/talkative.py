"""Its import prints, and sets an environment variable."""

import os
import sys

print("a line of stdout")
print("a line of noise", file=sys.stderr)
os.environ["SET_BY_AN_IMPORT"] = "yes"
