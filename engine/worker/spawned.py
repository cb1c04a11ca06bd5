"""The main module of a process that a worker spawns, such as a data loader.

Python executes this file by its path before it reads what the worker sends: objects of our classes
and of the recipe's. It has the search path of the worker, in which our folder is not.
"""

import os
import sys
from pathlib import Path

_ours = str(Path(__file__).parents[2])
sys.path.insert(0, _ours)
try:
    from engine.worker import environment, loader_process, own_modules, recipe_import
finally:
    sys.path.remove(_ours)

__all__ = ["loader_process"]  # the worker may name its functions

if __name__ == "__mp_main__":
    if os.environ.get(environment.SET_ASIDE):
        own_modules.set_aside()
    recipe_import.serve_spawned_process()
