"""A double of the files in which Linux shows AMD and Intel cards and the processes on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

GIB = 2**30


class DrmDouble:
    """Writes `sys` and `proc` below a folder, with the names and units of the kernel."""

    def __init__(self, folder: Path) -> None:
        self.system, self.proc = folder / "sys", folder / "proc"
        self.proc.mkdir(parents=True)
        self._cards = 0

    def add_amd(self, bus: str, files: Mapping[str, str] = {}, serial: str = "") -> Path:
        """Add a card of amdgpu with 24 GiB; return its folder. `files` are more files of it."""
        number = self._cards
        device = self._add_card(bus, "amdgpu", {"vendor": "0x1002", "device": "0x744c"})
        facts = {
            "mem_info_vram_total": str(24 * GIB),
            "mem_info_vram_used": str(6 * GIB),
            "gpu_busy_percent": "87",
            "hwmon/hwmon4/temp1_input": "61000",
            "hwmon/hwmon4/temp1_label": "edge",
            "hwmon/hwmon4/temp2_input": "74000",
            "hwmon/hwmon4/temp2_label": "junction",
            "hwmon/hwmon4/temp2_crit": "110000",
            "hwmon/hwmon4/power1_average": "287000000",
            "hwmon/hwmon4/power1_cap": "327000000",
            "hwmon/hwmon4/freq1_input": "2304000000",
            "hwmon/hwmon4/freq1_label": "sclk",
            "hwmon/hwmon4/freq2_input": "1249000000",
            "hwmon/hwmon4/freq2_label": "mclk",
            "hwmon/hwmon4/pwm1": "102",
            "hwmon/hwmon4/pwm1_max": "255",
            **({"unique_id": serial} if serial else {}),
        }
        write_files(device, {**facts, **files})
        node = self.system / f"class/kfd/kfd/topology/nodes/{number + 1}"
        minor = f"drm_render_minor {128 + number}\nsimd_count 192"
        write_files(node, {"gpu_id": str(5000 + number), "properties": minor})
        return device

    def add_intel(self, bus: str, files: Mapping[str, str] = {}) -> Path:
        """Add a card of xe; return its folder."""
        device = self._add_card(bus, "xe", {"vendor": "0x8086", "device": "0xe20b"})
        facts = {
            "hwmon/hwmon5/energy1_input": "1000000",
            "hwmon/hwmon5/power1_max": "190000000",
            "hwmon/hwmon5/temp2_input": "58000",
            "hwmon/hwmon5/temp2_label": "pkg",
            "tile0/gt0/freq0/act_freq": "2400",
            "tile0/gt0/gtidle/idle_residency_ms": "5000",
        }
        write_files(device, {**facts, **files})
        return device

    def add_connection(self, pid: int, descriptor: int, lines: Mapping[str, str]) -> None:
        """Let a process have a card open, with what its `fdinfo` says."""
        process = self.proc / str(pid)
        text = "".join(f"{key}:\t{value}\n" for key, value in lines.items())
        write_files(process, {f"fdinfo/{descriptor}": f"pos:\t0\n{text}"})
        (process / "fd").mkdir(exist_ok=True)
        (process / "fd" / str(descriptor)).symlink_to("/dev/dri/renderD128")

    def _add_card(self, bus: str, driver: str, files: Mapping[str, str]) -> Path:
        number = self._cards
        self._cards += 1
        device = self.system / f"class/drm/card{number}/device"
        write_files(device, {"uevent": f"DRIVER={driver}\nPCI_SLOT_NAME={bus}\n", **files})
        render = self.system / f"class/drm/renderD{128 + number}"
        render.mkdir()
        (render / "device").symlink_to(device)
        return device


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts below a folder, by the path of each."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
