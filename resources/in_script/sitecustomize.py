"""Runs when a Python of a run starts: the user's own `sitecustomize` first, then the watch.

Python finds this module because its folder stands first in PYTHONPATH. It leaves `sys.path` as the
script would find it without us, and never makes the script fail.
"""

import _imp
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 pathlib costs 5 ms


def _is_here(folder: str) -> bool:
    return os.path.realpath(folder or ".") == os.path.realpath(_HERE)


def _run_users_own() -> None:
    """Run the `sitecustomize` that this one hides, as `site` would have done."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    ours = sys.modules.get("sitecustomize")
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if ours is not None:
            sys.modules["sitecustomize"] = ours
        raise


def _watch() -> None:
    """Load the watch from this folder, which is no longer on the path."""
    spec = importlib.util.spec_from_file_location(
        "traindeck_watch",
        os.path.join(_HERE, "traindeck_watch", "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[os.path.join(_HERE, "traindeck_watch")],  # noqa: PTH118
    )
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["traindeck_watch"] = module
    spec.loader.exec_module(module)
    module.begin(_HERE)


def _watch_without_a_trace() -> None:
    """Load the watch from the standard library, also if the script has modules of such names; and
    forget what the script has itself, so that it imports its own."""
    before, path = set(sys.modules), list(sys.path)
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    front = path[: path.index(library)] if library in path else []
    sys.path[:] = path[len(front) :]
    try:
        _watch()
    finally:
        sys.path[:] = path
        loaded = [name for name in sys.modules if name not in before]
        role = sys.modules.get("traindeck_watch.role")
        if role is not None:
            front.append(role.folder_of_script())
        hidden = {name for name in {each.partition(".")[0] for each in loaded} if _has(front, name)}
        for name in loaded:
            if name.partition(".")[0] in hidden:
                del sys.modules[name]


def _has(folders: "list[str]", name: str) -> bool:
    """Whether one of the folders has a module that hides that of the standard library."""
    if name in sys.builtin_module_names or _imp.is_frozen(name) or name == "traindeck_watch":
        return False
    return any(
        os.path.isfile(f"{folder}/{name}{ending}")  # noqa: PTH113
        for folder in folders
        if folder
        for ending in (".py", "/__init__.py")
    )


sys.path[:] = [folder for folder in sys.path if not _is_here(folder)]
try:
    if os.environ.get("TRAINDECK_LINK") and sys.version_info >= (3, 9):
        _watch_without_a_trace()
except Exception as error:  # a watch that cannot start must not stop the script
    sys.stderr.write(f"Traindeck cannot watch this script: {error}\n")
finally:
    _run_users_own()
