"""A worker without a framework: it runs the Python code that is its argument."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    exec(sys.argv[1])
