# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the whole kernel, which outlive a run's nodes: noted before they are changed, put back at the end."""
import sys

from topologies.linux.namespace import sysctl_path, write_sysctl


class MachineSettings:
    """What a run changes outside of its nodes' namespaces. A context manager: the end puts everything back."""

    def __init__(self) -> None:
        self._before: list[tuple[str, str]] = []        # (path, content), in the order of the changes

    def sysctl(self, name: str, value: object) -> str:
        """Set a sysctl; the value read back. ValueError with one line if the kernel does not take it."""
        self._note(sysctl_path(name))
        return write_sysctl(name, value)

    def file(self, path: str, value: object) -> None:
        """Write a setting that is a file. Raises OSError."""
        self._note(path)
        with open(path, "w", encoding="utf-8") as f:
            f.write(str(value))

    def _note(self, path: str) -> None:
        try:
            with open(path, encoding="utf-8") as f:
                self._before.append((path, f.read()))
        except OSError:
            pass                        # not there, or write only: writing it says what is the matter

    def __enter__(self) -> "MachineSettings":
        return self

    def __exit__(self, *_exc: object) -> None:
        while self._before:
            path, content = self._before.pop()
            try:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(content)
            except OSError as problem:  # the others still have to be put back
                print(f"{path} could not be put back to {content.strip()!r}: {problem.strerror}", file=sys.stderr)
