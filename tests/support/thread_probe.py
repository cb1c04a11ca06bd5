"""A worker that prints the numbers of threads of its numeric libraries, as JSON."""

from __future__ import annotations

import importlib
import json

import threadpoolctl


def main() -> None:
    """Print them."""
    torch = importlib.import_module("torch")
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    blas = sorted({pool["num_threads"] for pool in pools if pool["internal_api"] == "openblas"})
    print(json.dumps({"torch": torch.get_num_threads(), "openblas": blas}))


if __name__ == "__main__":
    main()
