"""What is installed for a Python, read from its files: no program starts, nothing is imported."""

from __future__ import annotations

import base64
import configparser
import csv
import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROCM_TENSORFLOW = "tensorflow-rocm"
"""The distribution of TensorFlow that AMD builds for its GPUs."""

_TENSORFLOWS = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "tf-nightly",
    "tf-nightly-cpu",
    ROCM_TENSORFLOW,
)
"""Distributions that hold the package `tensorflow`."""

_CUDNN = re.compile(r"libcudnn\w*\.so\.\d+")
_NCCL = re.compile(r"libnccl\.so\.\d+")
_CUDA_SUFFIX = re.compile(r"-cu(\d\d)$")
_VERSIONED = re.compile(r"python\d\.\d+")
_INFO_FOLDER = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_LARGEST_TEXT = 4 * 2**20
"""Bytes of a file of text that is read; the largest RECORD of NVIDIA's wheels has 200 KiB."""


class Distribution(NamedTuple):
    """One installed package."""

    name: str
    """Normalised: `nvidia-cudnn-cu12`."""

    version: str
    info: Path
    """Its folder `.dist-info`."""

    @property
    def cuda(self) -> int:
        """The CUDA version that its name says, such as 12 for `nvidia-nccl-cu12`; 0: none."""
        found = _CUDA_SUFFIX.search(self.name)
        return int(found[1]) if found else 0

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class TorchBuild(NamedTuple):
    """The build of an installed PyTorch."""

    version: str
    """Such as `2.13.0+cpu`."""

    cuda: str
    """The CUDA version that it is built for, such as `13.0`; empty: it cannot use NVIDIA GPUs."""

    hip: str
    """The same of ROCm, for GPUs of AMD."""

    xpu: str = ""
    """The same of oneAPI, for GPUs of Intel."""

    def serves(self, maker: str) -> bool:
        """Whether it can use GPUs of this maker."""
        return bool({"AMD": self.hip, "Intel": self.xpu}.get(maker, self.cuda))

    @property
    def target(self) -> str:
        """What it is built for, such as `CUDA 13.0`; empty: for CPUs alone."""
        made = {"CUDA": self.cuda, "ROCm": self.hip, "XPU": self.xpu}
        return next((f"{name} {version}" for name, version in made.items() if version), "")


class TensorflowBuild(NamedTuple):
    """The build of an installed TensorFlow."""

    version: str
    variant: str
    """The distribution that it comes from: `tensorflow`, `tensorflow-cpu`, ..."""

    cuda: str
    """The CUDA version that it is built for, such as `12.5.1`; empty: it cannot use GPUs."""

    cudnn: str
    compute_capabilities: tuple[str, ...]
    """Such as `("sm_60", "compute_90")`."""

    libraries: tuple[Distribution, ...]
    """The wheels of NVIDIA for its CUDA version; without any, it needs those of the system."""


class SharedLibrary(NamedTuple):
    """A file of cuDNN or NCCL that several installed wheels own."""

    file: Path
    owners: tuple[Distribution, ...]
    content: Distribution | None
    """Whose file it is, by size and checksum; None if it is of none of them."""


class Installed:
    """The packages in some folders `site-packages`, in the order in which Python searches them."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        found: dict[str, Distribution] = {}
        for each in _distributions(self.folders):
            found.setdefault(each.name, each)
        self.distributions: Mapping[str, Distribution] = found
        """By normalised name."""

    def version(self, name: str) -> str:
        """Return the version of a package; empty if it is not installed."""
        found = self.distributions.get(normalised(name))
        return found.version if found else ""

    @functools.cached_property
    def torch(self) -> TorchBuild | None:
        """The installed PyTorch; None if there is none."""
        for folder in self.folders:
            if text := _text(folder / "torch" / "version.py"):
                values = {name: _assigned(text, name) for name in ("cuda", "hip", "xpu")}
                version = _assigned(text, "__version__") or self.version("torch")
                return TorchBuild(version, **values)
        return None

    @functools.cached_property
    def tensorflow(self) -> TensorflowBuild | None:
        """The installed TensorFlow; None if there is none."""
        variant = next((name for name in _TENSORFLOWS if name in self.distributions), "")
        for folder in self.folders:
            text = _text(folder / "tensorflow" / "python" / "platform" / "build_info.py")
            if not text:
                continue
            cuda = _of_build(text, "cuda_version") if "'is_cuda_build', True" in text else ""
            listed = re.search(r"'cuda_compute_capabilities', \[(.*?)\]", text)
            return TensorflowBuild(
                self.version(variant),
                variant,
                cuda,
                _of_build(text, "cudnn_version") if cuda else "",
                tuple(re.findall(r"'(\w+)'", listed[1])) if listed and cuda else (),
                tuple(self.cuda_set(int(cuda.partition(".")[0]))) if cuda else (),
            )
        return None

    def cuda_set(self, major: int) -> list[Distribution]:
        """Return NVIDIA's wheels that belong to one CUDA version, by their names."""
        return [
            each
            for name, each in sorted(self.distributions.items())
            if name.startswith("nvidia-") and each.cuda == major
        ]

    @functools.cached_property
    def library_owners(self) -> Mapping[Path, tuple[Distribution, ...]]:
        """The wheels that own each file of cuDNN and NCCL, by their RECORD."""
        found: dict[Path, list[Distribution]] = {}
        for each in self.distributions.values():
            if each.name.startswith("nvidia-"):
                for path, _, _ in _recorded_libraries(each):
                    found.setdefault(path, []).append(each)
        return {path: tuple(owners) for path, owners in sorted(found.items())}

    def shared_libraries(self) -> list[SharedLibrary]:
        """Return the files of cuDNN and NCCL that several wheels own: one lies over the other.

        It reads a file wholly if the wheels have files of equal size.
        """
        return [
            SharedLibrary(path, owners, _owner_by_content(path, owners))
            for path, owners in self.library_owners.items()
            if len(owners) > 1
        ]

    def mix_problem(self) -> str:
        """Return which wheels own the same libraries, in sentences; empty if none do."""
        shared = self.shared_libraries()
        if not shared:
            return ""
        pairs = dict.fromkeys(" and ".join(map(str, sorted(each.owners))) for each in shared)
        contents = dict.fromkeys(str(each.content) for each in shared if each.content)
        files = ", ".join(dict.fromkeys(_library_name(each.file) for each in shared))
        lies = (
            f" The files that lie there now are those of {' and '.join(contents)}."
            if contents
            else ""
        )
        return (
            f"Two CUDA sets are installed into one environment: {'; '.join(pairs)} own the same "
            f"files ({files}), and the files of one lie over those of the other.{lies} PyTorch and "
            "TensorFlow need an environment each to use GPUs."
        )


def installed_for(interpreter: str = "") -> Installed:
    """Return what is installed for the Python at the path `interpreter`; empty: for this one."""
    if not interpreter:
        return Installed(Path(entry) for entry in sys.path if entry)
    return Installed(site_folders(Path(interpreter)))


def loaded_libraries(maps: str | None = None) -> list[Path]:
    """Return the files of cuDNN and NCCL that this process has loaded.

    `maps`: the content of a file /proc/PID/maps; None: that of this process. On other systems than
    Linux there are none to see.
    """
    if maps is None:
        try:
            maps = Path("/proc/self/maps").read_text("utf-8", "surrogateescape")
        except OSError:
            return []
    paths = (
        line.split(maxsplit=5)[5]
        for line in maps.splitlines()
        if line.count(" ") > 4 and "/" in line
    )
    return sorted({Path(each.removesuffix(" (deleted)")) for each in paths if _is_library(each)})


def loaded_mix_problem(installed: Installed, cuda: str, maps: str | None = None) -> str:
    """Return which loaded libraries are not those of the framework, in a sentence; empty: none.

    `cuda`: the CUDA version that the framework is built for; empty: it loads none. `maps`: see
    `loaded_libraries`.
    """
    major = int(cuda.partition(".")[0]) if cuda else 0
    wrong: dict[Path, str] = {}
    for path in loaded_libraries(maps) if major else []:
        owners = _owners_of(installed, path)
        content = _owner_by_content(path, owners) if len(owners) > 1 else None
        if len(owners) > 1 and (content is None or content.cuda != major):
            whose = f"is that of {content}" if content else "is of one of both"
            wrong[path] = f"{path.name} belongs to {' and '.join(map(str, owners))}, and {whose}"
        elif len(owners) == 1 and owners[0].cuda not in (0, major):
            wrong[path] = f"{path.name} is that of {owners[0]}"
    if not wrong:
        return ""
    return (
        f"The framework is built for CUDA {cuda} and has loaded libraries of another CUDA version: "
        f"{'; '.join(wrong.values())}. Its results and its speed on GPUs cannot be relied on: let "
        "PyTorch and TensorFlow have an environment each."
    )


def site_folders(interpreter: Path) -> list[Path]:
    """Return where the Python at `interpreter` finds packages, as far as its files tell."""
    prefix = interpreter.parent.parent
    settings = venv_settings(prefix)
    if not settings:
        prefix = interpreter.resolve().parent.parent
    found = list(_folders_of(prefix))
    if not settings:
        found += _folders_of(Path.home() / ".local") if "HOME" in os.environ else []
    elif settings.get("include-system-site-packages", "").lower() == "true":
        found += _folders_of(Path(settings.get("home", "")).parent)
    return list(dict.fromkeys([*found, *(one for each in found for one in _added_folders(each))]))


def python_version(interpreter: Path) -> tuple[int, int] | None:
    """Return the version of the Python at `interpreter`, as far as its files tell."""
    found = re.match(r"(\d+)\.(\d+)", python_version_text(interpreter))
    return (int(found[1]), int(found[2])) if found else None


def python_version_text(interpreter: Path) -> str:
    """Return the same as exactly as it is known, such as `3.11.7` or `3.11`; empty: unknown."""
    settings = venv_settings(interpreter.parent.parent)
    text = settings.get("version", "") or settings.get("version_info", "")
    if not text:
        names = [each.parent.name for each in site_folders(interpreter)]
        versioned = filter(_VERSIONED.fullmatch, [interpreter.resolve().name, *names])
        text = next(versioned, "").removeprefix("python")
    return ".".join(text.split(".")[:3])


def venv_settings(folder: Path) -> Mapping[str, str]:
    """Return the content of `pyvenv.cfg` of a virtual environment; empty: it is none."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(f"[venv]\n{_text(folder / 'pyvenv.cfg')}")
    except configparser.Error:
        return {"home": ""}  # one whose file is damaged
    return dict(parser["venv"])


def normalised(name: str) -> str:
    """Return the name of a package as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _folders_of(prefix: Path) -> Iterator[Path]:
    names = ("site-packages", "dist-packages")
    patterns = [f"{library}/python3*/{name}" for library in ("lib", "lib64") for name in names]
    patterns += ["local/lib/python3*/dist-packages", "Lib/site-packages"]
    seen = set()
    for pattern in patterns:
        for folder in sorted(prefix.glob(pattern)):
            if (real := folder.resolve()) not in seen:  # lib64 is a link
                seen.add(real)
                yield folder


def _added_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders that the files `.pth` in `folder` add to the path, as `site` does."""
    for file in sorted(folder.glob("*.pth")):
        for line in _text(file).splitlines():
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                added = folder / line.strip()
                if added.is_dir():
                    yield added


def _distributions(folders: Iterable[Path]) -> Iterator[Distribution]:
    for folder in folders:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if found := _INFO_FOLDER.fullmatch(entry.name):
                yield Distribution(normalised(found["name"]), found["version"], Path(entry.path))


def _recorded_libraries(owner: Distribution) -> Iterator[tuple[Path, str, int]]:
    """Yield path, checksum and size of each file of cuDNN or NCCL that a wheel has installed."""
    for row in csv.reader(_text(owner.info / "RECORD").splitlines()):
        if len(row) == 3 and _is_library(row[0]):
            yield owner.info.parent / row[0], row[1], int(row[2]) if row[2].isdecimal() else -1


def _owners_of(installed: Installed, path: Path) -> tuple[Distribution, ...]:
    """Return the wheels that own `path`, also if it is reached by a link."""
    if found := installed.library_owners.get(path):
        return found
    real = path.resolve()
    candidates = installed.library_owners.items()
    return next((owners for each, owners in candidates if each.resolve() == real), ())


def _owner_by_content(path: Path, owners: Sequence[Distribution]) -> Distribution | None:
    """Return the wheel whose file lies at `path`; None if it is of none, or cannot be read."""
    try:
        size = path.stat().st_size
        candidates = [
            (owner, checksum)
            for owner in owners
            for each, checksum, recorded in _recorded_libraries(owner)
            if each.name == path.name and recorded == size
        ]
        if len(candidates) < 2:
            return candidates[0][0] if candidates else None
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return None
    own = "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    same = [owner for owner, checksum in candidates if checksum == own]
    return same[0] if same else None


def _is_library(path: str) -> bool:
    name = path.rpartition("/")[2].removesuffix(" (deleted)")
    return bool(_CUDNN.fullmatch(name) or _NCCL.fullmatch(name))


def _library_name(path: Path) -> str:
    return "libnccl" if _NCCL.fullmatch(path.name) else "libcudnn"


def _assigned(text: str, name: str) -> str:
    """Return the text that a line such as `cuda: Optional[str] = '13.0'` assigns; empty: none."""
    found = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]*)['\"]", text, re.MULTILINE)
    return found[1] if found else ""


def _of_build(text: str, name: str) -> str:
    found = re.search(rf"'{name}', '([^']*)'", text)
    return found[1] if found else ""


def _text(file: Path) -> str:
    """Return the content of a small file of text; empty if there is none that can be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""
