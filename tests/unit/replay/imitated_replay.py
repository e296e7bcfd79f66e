# SPDX-License-Identifier: GPL-2.0-only
"""A replay of both ends of a plan over `imitated_ring`: in no real time, and the same every time."""
import ctypes
import mmap
import threading
import traceback

from tests.unit.replay.imitated_ring import ImitatedRing
from tests.unit.replay.imitated_tcp import Listener, Socket, World
from tests.unit.replay.plans import PORT, make_plan
from traffic.replay import core_loop, endpoint
from traffic.replay.records import ACCEPTOR, INITIATOR

ADDRESS = "127.0.0.1"
#: imitation.c takes what is below for the real kernel's
FIRST_FD = 1 << 20


class Host:
    """One end of a replay: its descriptors, and a thread that runs while everything else stands still."""

    def __init__(self, world, role, chains, asks, taken_ports, refused_ports):
        self.world, self.role, self.chains, self.asks = world, role, chains, asks
        self.taken_ports, self.refused_ports = taken_ports, refused_ports
        self.files = {}
        self.loop = self.ring = self.end = None
        self.asleep = self.done = False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)

    def open(self, what):
        """The lowest free descriptor, as the kernel gives them: so one is soon another socket's."""
        fd = next(fd for fd in range(FIRST_FD, 2 * FIRST_FD) if fd not in self.files)
        self.files[fd] = what
        return fd

    def close(self, fd):
        found = self.files.pop(fd, None)
        if isinstance(found, Socket):
            found.close_when_left()

    def listen(self):
        found = self.world.listeners[PORT] = Listener(self)
        return self.open(found)

    def start(self, duration_ns):
        begins_ns = self.world.now_ns
        threading.Thread(target=self._run, args=(begins_ns, duration_ns), daemon=True).start()

    def _run(self, begins_ns, duration_ns):
        self._go.acquire()
        try:
            self.loop.run(begins_ns, duration_ns)
        except Exception:
            self.world.problems.append(traceback.format_exc())
        self.done = True
        self._stopped.release()

    def wake(self):
        """Let the thread run until it sleeps or ends."""
        self._go.release()
        self._stopped.acquire()

    def sleep(self):
        """Called by the thread."""
        self.asleep = True
        self._stopped.release()
        self._go.acquire()
        self.asleep = False

    def check_end(self):
        """All blocks were given back, and nothing twice. Buffers of reads that never ended are not."""
        what_is_lost = self.loop._core.what_is_lost
        what_is_lost.argtypes, what_is_lost.restype = [ctypes.c_void_p], ctypes.c_char_p
        lost = what_is_lost(self.loop._state)
        if lost:
            self.world.problems.append(f"{self.role}: {lost.decode()}")


def replay(monkeypatch, folder, library, connections, duration_us, *, delay_ns=5_000_000, rate_bps=10_000_000,
           send_buffer_bytes=300_000, writers_first=False, entries=4096, chains=True, asks=True, taken_ports=(),
           refused_ports=(), resets=(), stop_us=None):
    """Replay connections (`plans.make_plan`). Returns ({role: what its end noted}, problems).

    library: of imitated_core.py. writers_first: see World; entries: of a ring. chains: instants are noted by the ring;
    asks: it can be asked for a congestion control, too. taken_ports, refused_ports: of initiators, of which bind or
    connect fail. resets: (t_us, initiator's port, role) of connections that a RST ends there. stop_us: when the replay
    is told to stop, as by a signal.
    """
    clock = folder / "clock"
    clock.write_bytes(bytes(mmap.PAGESIZE))
    with open(clock, "r+b") as file:
        page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    world = World(delay_ns, rate_bps, send_buffer_bytes, writers_first, clock=memoryview(page).cast("Q"))
    begins_ns = world.now_ns
    make_plan(folder / "plan", connections)
    hosts = {role: Host(world, role, chains, asks, set(taken_ports), set(refused_ports))
             for role in (ACCEPTOR, INITIATOR)}
    with monkeypatch.context() as during:
        during.setattr(core_loop, "DEVICE", str(clock))
        during.setattr(core_loop, "OFFSET_NS", 0)
        kept = _imitate_calls(library, world, hosts)
        for role, host in hosts.items():
            _imitate(during, world, host, entries)
            host.end = endpoint.End({"source": 0, "role": role, "plan": folder / "plan", "local": ADDRESS,
                                     "peer": ADDRESS, "port": PORT}, role)
            host.loop = core_loop.CoreLoop([host.end], "/imitated", library)
            host.start(duration_us * 1000)
        for t_us, port, role in resets:
            world.at(begins_ns + 1000 * t_us, _reset, hosts[role], port)
        if stop_us is not None:
            for host in hosts.values():
                world.at(begins_ns + 1000 * stop_us, _stop, host)
        _imitate(during, world, None, entries, hosts)
        _go_on(world, hosts)
    for host in hosts.values():
        host.check_end()
    del kept
    return {role: _noted(host) for role, host in hosts.items()}, world.problems


def _running(hosts):
    return next(host for host in hosts.values() if not host.asleep)


def _imitate(patch, world, host, entries, hosts=None):
    """What core_loop.py takes for the kernel, for the host whose loop is made, or for whichever runs."""
    def running():
        return host or _running(hosts)
    patch.setattr(core_loop, "Ring", lambda _: _ring(running(), entries))
    patch.setattr(core_loop, "listener", lambda end, nonblocking: running().listen())
    patch.setattr(core_loop, "tcp_socket", lambda family, nonblocking: running().open(Socket(world)))
    patch.setattr(core_loop, "close", lambda fd: running().close(fd))
    patch.setattr(core_loop, "may_ask", lambda ring, fd, number: running().asks)


def _imitate_calls(library, world, hosts):
    """What the library takes for the kernel. What is returned has to stay."""
    def guarded(do, *arguments):
        try:
            return do(*arguments)
        except Exception:
            world.problems.append(traceback.format_exc())
            return -1
    by_fd = {number: host for number, host in enumerate(hosts.values(), FIRST_FD)}
    for number, host in by_fd.items():
        host.ring_fd = number
    enter = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int)(
        lambda ring, waiting, least: guarded(lambda: by_fd[ring].ring.enter(waiting, least)))
    opened = ctypes.PYFUNCTYPE(ctypes.c_int)(lambda: guarded(lambda: _running(hosts).open(Socket(world))))
    loaded = ctypes.PyDLL(library)
    for name, function in (("on_enter", enter), ("on_socket", opened)):
        ctypes.c_void_p.in_dll(loaded, name).value = ctypes.cast(function, ctypes.c_void_p).value
    return enter, opened


def _ring(host, entries):
    host.ring = ImitatedRing(host, entries)
    return host.ring


def _go_on(world, hosts):
    """Let things happen until both ends are done."""
    for host in hosts.values():
        host.asleep = True
    for host in hosts.values():
        host.asleep = False
        host.wake()
        host.asleep = True
    while not all(host.done for host in hosts.values()):
        for host in hosts.values():
            while not host.done and (host.ring.awake or host.loop.stopping):
                host.asleep = False
                host.wake()
                host.asleep = True
        if not all(host.done for host in hosts.values()) and not world.step():
            world.problems.append("nothing is left to happen, and the replay waits")
            return


def _reset(host, port):
    for found in list(host.files.values()):
        if isinstance(found, Socket) and found.port == port and found.peer is not None:
            found.break_off()
            host.world.after_delay(found.peer.break_off)


def _stop(host):
    host.loop.stopping = True


def _noted(host):
    records, account = host.end.records, host.end.account()
    columns = ("start_us", "connected_us", "end_us", "status", "read_bytes", "sent_us", "delivered_us")
    counts = ("ccas", "checked_bytes", "unchecked_bytes", "wrong_pieces")
    return {**{name: list(getattr(records, name)) for name in columns}, **{name: account[name] for name in counts},
            "strays": host.loop.strays, "chains": host.loop.chains}
