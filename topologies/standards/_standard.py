# SPDX-License-Identifier: GPL-2.0-only
"""`Standard`: what a standard of radios has to say, so that topologies, guest and checks need not know which it is."""
import abc
from typing import TYPE_CHECKING, ClassVar, Protocol

from topologies.links.records import Cell, Station

if TYPE_CHECKING:
    from topologies.linux.genetlink import Family

#: a queue that is longer than that is not waited for
_LONGEST_US = 100_000_000


class Devices(Protocol):
    """How radios of a stack become devices of their nodes, by netlink: in the guest only."""

    #: of generic netlink
    FAMILY: str
    #: whether stations have to join their cell
    JOINS: bool

    def move(self, family: "Family", number: int, pid: int) -> None:
        """Put radio number n, which the module made, into the network namespace of a process."""

    def create(self, number: int, station: Station, cell: Cell) -> None:
        """Make its devices, which are down; in that namespace."""

    def lines(self, station: Station) -> list[str]:
        """What `ip -batch` is told before the device gets its address."""

    def join(self, station: Station) -> None:
        """Join the cell; in that namespace."""


class Standard(abc.ABC):
    """A standard; `cell`: what it is asked about, a cell of network.json. All times are in us."""

    #: as scenarios and network.json spell it
    NAME: ClassVar[str]
    #: the kernel's stack above the radio
    STACK: ClassVar[str]
    #: that makes the radios, a folder of kernel-modules/
    MODULE: ClassVar[str]
    #: a node's device with an address on the air, behind its name
    DEVICE: ClassVar[str]
    #: of frames to one station, in bit/s; the first one if none is given
    RATES_BPS: ClassVar[tuple[int, ...]]
    #: the largest IP packet
    MTU_BYTES: ClassVar[int]
    #: whether packets wait in a queue of the device that the topology describes, else in those of the stack
    QUEUE_AT_DEVICE: ClassVar[bool]
    #: whether a packet may take several frames
    CUTS_PACKETS: ClassVar[bool]

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    @classmethod
    def queue_device(cls, station: Station) -> str:
        """The device whose queue and counters are those of a station's frames."""
        return station.device

    @staticmethod
    @abc.abstractmethod
    def link_address(station: int) -> str:
        """As the module numbers its radios."""

    @staticmethod
    @abc.abstractmethod
    def devices() -> Devices:
        """How they are set up."""

    def module_settings(self) -> dict[str, int]:
        """What the module is told beside what all modules of kernel-modules/air are told."""
        return {}

    @abc.abstractmethod
    def frame_us(self, frame_bytes: int, rate_bps: int | None = None) -> float:
        """Airtime of a frame, checksum included: at the cell's rate, or another one."""

    @abc.abstractmethod
    def data_bytes(self, ip_bytes: int, forwarded: bool = False) -> int:
        """Size of the frame of an IP packet, checksum included, if one frame is enough; forwarded: its hop limit is no
        longer 64."""

    @abc.abstractmethod
    def ack_us(self) -> float:
        """Airtime of an acknowledgement."""

    @abc.abstractmethod
    def most_bps(self) -> float:
        """What a cell carries of large IP packets, or of full frames where packets are cut, from one station that
        nobody disturbs.

        Less than the rate of its frames: that is what a link before or behind it is to be compared with.
        """

    @abc.abstractmethod
    def hop_us(self, frame_bytes: int, first: bool, follows: bool) -> tuple[float, float]:
        """What a hop takes on an idle channel: at least, and how much more at most.

        first: nobody backs off; follows: it has to wait for the acknowledgement of what came.
        """

    @abc.abstractmethod
    def _queue(self) -> tuple[float, int]:
        """About how long a frame takes that waits at a station, and how many may."""

    def longest_queue_us(self) -> int:
        """About how long it takes until all stations of a cell have sent what may wait at them; at most 100 s."""
        each_us, frames = self._queue()
        return min(_LONGEST_US, int(2 * each_us * frames * len(self.cell.stations)))
