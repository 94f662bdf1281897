"""Which file systems a database file may lie on: none whose locks do not hold between hosts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from runlease_service.database.base import DatabaseSetupError

MOUNTS: Final = Path("/proc/self/mounts")
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
"""How the kernel writes white space and backslashes in a mount point."""
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    [
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    ]
)


def refuse_network_file_system(path: Path) -> None:
    """Where the kernel says what is mounted, refuse what cannot lock between hosts."""
    if not path.parent.is_dir():
        raise DatabaseSetupError(f"the folder {path.parent} does not exist; make it first")
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    folder = str(path.parent.resolve())
    found, kind = "", ""
    for line in mounts.splitlines():
        _, mount, file_system, *_ = line.split(" ")
        mount = _OCTAL.sub(lambda escape: chr(int(escape[1], 8)), mount)
        inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(found):
            found, kind = mount, file_system
    if kind in _NETWORK_FILE_SYSTEMS:
        raise DatabaseSetupError(
            f"{folder} is on a network file system ({kind}), whose locks SQLite cannot rely on; "
            "put the file on a local disk or use PostgreSQL"
        )
