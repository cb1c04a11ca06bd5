"""The helper process that owns NVML and prints a snapshot of all devices each second."""
