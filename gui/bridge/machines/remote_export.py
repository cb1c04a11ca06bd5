"""Exports runs of another machine: written there, and downloaded in checked pieces."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.exports.export_runs import CannotExport, Exported, Format
from engine.remote import requests
from engine.remote.connection import Connection
from engine.remote.downloads import DownloadFailed, download_export
from engine.remote.session import RemoteError
from gui.bridge.machines.remote_run import ANSWER_SECONDS, downloading

EXPORT_SECONDS = 3600.0
"""For the other machine to write an export; the user can cancel it."""


def export_elsewhere(
    connection: Connection,
    numbers: Sequence[str],
    format: Format,
    target: Path,
    progress: Callable[[int, int], None],
    *,
    cancelled: threading.Event,
) -> Exported:
    """Export the runs with these numbers to the new file or folder `target` of this machine.

    `progress` gets the points that were written there, then the bytes that are here; what it raises
    ends the download. Raises CannotExport and NoAnswer; nothing is left behind then.
    """
    request = requests.Export(tuple(numbers), str(format))
    with downloading(connection):
        exported = connection.call(request, EXPORT_SECONDS, cancelled=cancelled)
        try:
            download_export(connection.begin, exported, target, progress)
        except DownloadFailed as error:
            raise CannotExport(str(error)) from error
        finally:
            with contextlib.suppress(RemoteError):  # it is deleted when the connection ends
                connection.call(requests.Discard(exported.number), ANSWER_SECONDS)
    return Exported(target, len(numbers), exported.points, exported.remarks)
