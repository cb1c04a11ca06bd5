"""The list of devices, the details of a device, alarms, and the links between GPUs."""
