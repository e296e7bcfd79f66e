# SPDX-License-Identifier: GPL-2.0-only
"""A replay of both ends of a plan over `imitated_ring`: in no real time, and the same every time."""
import threading
import traceback

from tests.unit.replay.imitated_ring import CCA, ImitatedRing
from tests.unit.replay.imitated_tcp import Listener, Socket, World
from tests.unit.replay.plans import PORT, make_plan
from traffic.replay import endpoint, ringloop
from traffic.replay.records import ACCEPTOR, INITIATOR

ADDRESS = "127.0.0.1"


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
        fd = next(fd for fd in range(3, 1 << 20) if fd not in self.files)
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

    # --- what is looked at

    def check_note(self, ring, operation, address):
        notes = self.loop.notes
        block = (address - notes.address(0)) // 64 * 8
        flow = self.loop._flows.get(operation.flow)
        if block in notes._free or flow is None or flow.block != block:
            ring.problem(operation, "notes an instant in a block that is not its own")

    def check_buffer(self, ring, operation, address):
        if address in self.loop.buffers._free:
            ring.problem(operation, "reads into a buffer that was given back")

    def check_end(self):
        """All blocks were given back, and nothing twice. Buffers of reads that never ended are not."""
        loop = self.loop
        notes = [] if loop.notes is None else loop.notes._free
        taken = 0 if loop.notes is None else loop.notes._fresh
        for what, free in (("block", notes), ("buffer", loop.buffers._free)):
            if len(set(free)) != len(free):
                self.world.problems.append(f"{self.role}: a {what} was given back twice")
        if len(notes) != taken:
            self.world.problems.append(f"{self.role}: {taken - len(notes)} blocks were not given back")


def replay(monkeypatch, folder, connections, duration_us, *, delay_ns=5_000_000, rate_bps=10_000_000,
           send_buffer_bytes=300_000, writers_first=False, entries=4096, chains=True, asks=True, taken_ports=(),
           refused_ports=(), resets=(), stop_us=None):
    """Replay connections (`plans.make_plan`). Returns ({role: what its end noted}, problems).

    writers_first: see World; entries: of a ring. chains: instants are noted by the ring; asks: it can be asked for a
    congestion control, too. taken_ports, refused_ports: of initiators, of which bind or connect fail. resets: (t_us,
    initiator's port, role) of connections that a RST ends there. stop_us: when the replay is told to stop, as by a
    signal.
    """
    world = World(delay_ns, rate_bps, send_buffer_bytes, writers_first)
    begins_ns = world.now_ns
    make_plan(folder / "plan", connections)
    hosts = {role: Host(world, role, chains, asks, set(taken_ports), set(refused_ports))
             for role in (ACCEPTOR, INITIATOR)}
    for role, host in hosts.items():
        with monkeypatch.context() as during:
            _imitate(during, world, hosts, entries, host)
            host.end = endpoint.End({"source": 0, "role": role, "plan": folder / "plan", "local": ADDRESS,
                                     "peer": ADDRESS, "port": PORT}, role)
            host.loop = ringloop.RingLoop([host.end])
            host.start(duration_us * 1000)
    for t_us, port, role in resets:
        world.at(begins_ns + 1000 * t_us, _reset, hosts[role], port)
    if stop_us is not None:
        for host in hosts.values():
            world.at(begins_ns + 1000 * stop_us, _stop, host)
    with monkeypatch.context() as during:
        _imitate(during, world, hosts, entries)
        _go_on(during, world, hosts)
    for host in hosts.values():
        host.check_end()
    return {role: _noted(host) for role, host in hosts.items()}, world.problems


def _imitate(patch, world, hosts, entries, host=None):
    """What the replay takes for the kernel; host: the one whose loop is to be made or runs, if only one can."""
    running = (lambda: host) if host else (lambda: next(one for one in hosts.values() if not one.asleep))
    patch.setattr(ringloop, "Ring", lambda _: _ring(running(), entries))
    patch.setattr(ringloop, "listener", lambda end, nonblocking: running().listen())
    patch.setattr(ringloop, "tcp_socket", lambda family, nonblocking: running().open(Socket(world)))
    patch.setattr(ringloop, "close", lambda fd: running().close(fd))
    patch.setattr(ringloop, "now_ns", lambda: world.now_ns)
    patch.setattr(ringloop, "OFFSET_NS", 0)
    patch.setattr(endpoint, "cca_of", lambda fd: CCA)


def _ring(host, entries):
    host.ring = ImitatedRing(host, entries)
    return host.ring


def _go_on(patch, world, hosts):
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
