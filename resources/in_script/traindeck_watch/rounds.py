"""Which optimizer steps are one step of the run, when several optimizers take turns."""

from __future__ import annotations


class Rounds:
    """A round ends when a member steps for the second time.

    So a GAN's two optimizers make one step of the run, and five steps of the one for each of the
    other make five.
    """

    def __init__(self) -> None:
        self._members: set[int] = set()
        self._last_size = 1
        self.is_complete = False
        """Whether as many have stepped as in the round before: the boundary between two steps."""

    def enter(self, key: int) -> bool:
        """A member steps. Returns whether that begins a step of the run."""
        members = self._members
        begins = not members or key in members
        if begins and len(members) < 2:
            self._last_size = 1
            members.add(key)
        elif begins:
            self._last_size = len(members)
            self._members = members = {key}
        else:
            members.add(key)
        self.is_complete = len(members) >= self._last_size
        return begins

    def leave(self, key: int) -> None:
        """A member is gone, and another has taken its place."""
        self._members.discard(key)
        self.is_complete = len(self._members) >= self._last_size
