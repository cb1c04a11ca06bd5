"""Images of a run are read within limits: place, size and format come from its script."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QBuffer
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from engine.interface.local_engine import LARGEST_MEDIA, LocalEngine
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.files import media_files
from gui.bridge.files.media_files import MediaFiles, UnfitImage, read_image
from tests.support.sentences import sentence


def png(width: int = 4, height: int = 3, colour: str = "#ff0000") -> bytes:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor(colour))
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]  # PySide takes a name of a format
    return bytes(buffer.data().data())


def header(width: int, height: int) -> bytes:
    """The beginning of a PNG that says how large it is."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


@pytest.fixture
def run(traindeck_home: Path) -> Path:
    folder = paths.create_run_folder()
    (folder / "media").mkdir()
    return folder


def test_an_image_is_read_and_a_preview_is_small(run: Path) -> None:
    (run / "media" / "a.png").write_bytes(png(1000, 10))
    assert read_image(LocalEngine(), run.name, "media/a.png").width() == 1000
    small = read_image(LocalEngine(), run.name, "media/a.png", 100)
    assert (small.width(), small.height()) == (100, 1)


@pytest.mark.parametrize(
    "file",
    ["spec.toml", "media/../secret.png", "/etc/passwd", "../media/a.png", "", "media/\0.png"],
)
def test_only_the_folder_of_images_is_read(run: Path, file: str) -> None:
    (run / "secret.png").write_bytes(png())
    with pytest.raises(UnfitImage, match=sentence("not-in-folder-of-images").pattern):
        read_image(LocalEngine(), run.name, file)


def test_links_lead_nowhere(run: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.png").write_bytes(png())
    (run / "media" / "a.png").symlink_to(tmp_path / "other" / "a.png")
    (run / "media" / "deep").symlink_to(tmp_path / "other")
    with pytest.raises(UnfitImage, match="link"):
        read_image(LocalEngine(), run.name, "media/a.png")
    with pytest.raises(UnfitImage, match="another folder"):
        read_image(LocalEngine(), run.name, "media/deep/a.png")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", "no PNG"),
        (b"GIF89a\x01\x00\x01\x00", "no PNG"),
        (b"", "no PNG"),
        (header(100_000, 100_000), "too large"),
        (header(16_000, 16_000), "too large"),
        (png()[:-30], "damaged"),
    ],
)
def test_what_is_no_image_or_too_large_is_unread(run: Path, content: bytes, words: str) -> None:
    (run / "media" / "a.png").write_bytes(content)
    with pytest.raises(UnfitImage, match=words):
        read_image(LocalEngine(), run.name, "media/a.png")


def test_a_file_that_is_too_large_or_gone_is_said(run: Path) -> None:
    with (run / "media" / "a.png").open("wb") as file:
        file.truncate(LARGEST_MEDIA + 1)
    with pytest.raises(UnfitImage, match="larger than"):
        read_image(LocalEngine(), run.name, "media/a.png")
    with pytest.raises(UnfitImage, match="not there any more"):
        read_image(LocalEngine(), run.name, "media/b.png")


@pytest.fixture
def files(run: Path, qtbot: QtBot) -> Iterator[MediaFiles]:
    background = Background()
    made = MediaFiles(background)
    made.watch(run.name)
    yield made
    background.finish()


def test_previews_are_read_once_and_of_one_run(files: MediaFiles, run: Path, qtbot: QtBot) -> None:
    (run / "media" / "a.png").write_bytes(png())
    with qtbot.waitSignal(files.preview) as shown:
        files.want(["media/a.png"])
    file, image = shown.args
    assert (file, image.width()) == ("media/a.png", 4)
    assert files.known("media/a.png") is image
    with qtbot.waitSignal(files.preview) as shown:
        files.want(["media/a.png", "media/b.png"])
    assert "not there any more" in shown.args[1]
    files.watch("77")
    with qtbot.waitSignal(files.preview) as shown:
        files.want(["media/a.png"])
    assert "There is no run 77" in shown.args[1]
    files.watch(None)
    assert files.known("media/a.png") is None
    with qtbot.assertNotEmitted(files.preview, wait=100):
        files.want(["media/a.png"])


def test_the_memory_for_previews_is_limited(
    files: MediaFiles, run: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_files, "_CACHE_BYTES", 5000)
    names = [f"media/{number}.png" for number in range(6)]
    for name in names:
        (run / name).write_bytes(png(20, 20))  # 1600 bytes
    got: list[str] = []
    files.preview.connect(lambda file, _: got.append(file))
    files.want(names)
    qtbot.waitUntil(lambda: len(got) == 6)
    assert sum(files.known(name) is not None for name in names) == 3
