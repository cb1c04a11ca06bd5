"""One process of a pool: the framework-free part of a worker."""
