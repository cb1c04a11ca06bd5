"""Run by the Python of an environment: prints one line of JSON about it, or about a framework.

It needs the standard library only, of Python 3.6 or newer.
"""

from __future__ import annotations

import json
import os
import sys


def _python() -> dict[str, object]:
    return {"version": ".".join(map(str, sys.version_info[:3])), "path": [p for p in sys.path if p]}


def _torch() -> dict[str, object]:
    import torch

    cuda = torch.version.cuda or torch.version.hip or ""
    gpus = torch.cuda.device_count() if cuda and torch.cuda.is_available() else 0
    return {"version": torch.__version__, "cuda": cuda, "gpus": gpus}


def _tensorflow() -> dict[str, object]:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    build = tensorflow.sysconfig.get_build_info()
    gpus = tensorflow.config.list_physical_devices("GPU")
    cuda = str(build.get("cuda_version", ""))
    return {"version": tensorflow.__version__, "cuda": cuda, "gpus": len(gpus)}


def main(what: str) -> None:
    """Print what is known about `what`: `python`, `torch` or `tensorflow`."""
    try:
        found = {"python": _python, "torch": _torch, "tensorflow": _tensorflow}[what]()
    except BaseException as error:  # a damaged library may raise anything
        found = {"problem": f"{type(error).__name__}: {error}"[:2000]}
    sys.stdout.write("\n" + json.dumps(dict(found, traindeck=what)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the exit handlers of a framework may hang


if __name__ == "__main__":
    main(sys.argv[1])
