"""Where else the host shows a folder: the mount table, read only. Opens no data."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the mount table."""

    device: str
    root: Path
    """The folder of the file system that is mounted."""
    point: Path
    """Where it is mounted."""
    kind: str
    """The type of the file system."""


class MountTable:
    """The mounts of this process."""

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def read(cls) -> MountTable:
        """Read the table of this process; an unreadable one counts as empty."""
        try:
            return cls(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
        except OSError:
            return cls("")

    @cached_property
    def mounts(self) -> tuple[Mount, ...]:
        """In the order of the table: a later one lies over an earlier one."""
        found = []
        for line in self._text.splitlines():
            fields = line.split(" ")
            if "-" in fields[6:-1]:
                kind = fields[fields.index("-", 6) + 1]
                root, point = (Path(_unescaped(field)) for field in fields[3:5])
                found.append(Mount(fields[2], root, point, kind))
        return tuple(found)

    def places(self, path: Path) -> list[Path]:
        """Every path under which (a part of) what lies at `path` can be reached, itself first.

        Parameters
        ----------
        path : Path
            A real path (no links).
        """
        places = [path]
        home = self._mount_of(path)
        if home is not None:
            inside = home.root / path.relative_to(home.point)
            for mount in self.mounts:
                if mount is home or mount.device != home.device:
                    continue
                if inside.is_relative_to(mount.root):
                    places.append(mount.point / inside.relative_to(mount.root))
                elif mount.root.is_relative_to(inside):
                    places.append(mount.point)
        return [place for place in dict.fromkeys(places) if place == path or os.path.lexists(place)]

    def _mount_of(self, path: Path) -> Mount | None:
        best: Mount | None = None
        for mount in self.mounts:
            if path.is_relative_to(mount.point) and (
                best is None or len(mount.point.parts) >= len(best.point.parts)
            ):
                best = mount
        return best


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
