# SPDX-License-Identifier: GPL-2.0-only
"""What stands in for a network where only its namespaces are asked for."""
import contextlib
import os


class NoNetwork:
    """Notes whose namespaces are entered; `here` is the node of the current one."""

    def __init__(self, *nodes):
        self.nodes, self.entered, self.here = nodes, [], None

    def node_names(self):
        return list(self.nodes)

    @contextlib.contextmanager
    def in_namespace(self, name):
        self.entered.append(name)
        before, self.here = self.here, name
        try:
            yield
        finally:
            self.here = before

    def open_namespace(self, name):
        """A descriptor in which the node's name can be read."""
        descriptor, other_end = os.pipe()
        os.write(other_end, name.encode())
        os.close(other_end)
        return descriptor
