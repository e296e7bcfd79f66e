# SPDX-License-Identifier: GPL-2.0-only
"""ns-2, the simulator of the evaluation suite's first implementation (docs/howto/simulators.md).

Its own interpreter, Debian's `ns`, runs one fixed script, simulation/ns2/driver.tcl, which reads its orders as data.
"""
from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence

from testbed import PROJECT_DIR
from testbed.core.errors import EnvironmentProblem
from testbed.core.files import sha256_of
from testbed.engines._simulators import changing, driver_orders as orders
from testbed.engines._simulators.engine import SimulatorEngine
from testbed.engines._simulators.workload import Work
from testbed.guest.job import Job
from testbed.runs.engine import Capabilities, Problem, Report
from testbed.runs.plan import Plan
from traffic.workload.records import Flow

_SCRIPTS = PROJECT_DIR / "simulation" / "ns2"
_PROGRAM = "/usr/bin/ns"

#: two-way agents (below Agent/TCP) by the kernel's name and whether SACK is on
_TWO_WAY = {("reno", 1): "FullTcp/Sack", ("reno", 0): "FullTcp/Newreno", ("reno_classic", 0): "FullTcp",
            ("tahoe", 0): "FullTcp/Tahoe", ("reno_classic", 1): "FullTcp", ("tahoe", 1): "FullTcp/Tahoe"}
#: one-way agents, for greedy flows only: Linux's modules in ns-2's Agent/TCP/Linux
_ONE_WAY = ("bic", "cubic", "highspeed", "htcp", "hybla", "illinois", "lp", "scalable", "vegas", "veno", "westwood")
#: one-way agents of studies made with ns-2, for flows that count their windows in segments of a size of their own
_STUDIED = {("tahoe", 0): "Tahoe", ("tahoe", 1): "Tahoe", ("reno_classic", 0): "Reno", ("reno_classic", 1): "Reno",
            ("reno", 0): "Newreno", ("reno", 1): "Sack1", ("vegas", 0): "Vegas", ("vegas", 1): "Vegas"}


class Engine(SimulatorEngine):
    """Runs the script in Debian's ns-2."""
    capabilities = Capabilities(clock="simulated", kernel=False, modules=False, probes=("queue", "sojourn", "tcp_info"))
    SYSCTLS = {"net.ipv4.tcp_sack": (0, 1), "net.ipv4.tcp_ecn": (0,), "net.ipv4.tcp_slow_start_after_idle": (0, 1),
               # buffers are of their largest size from the beginning
               "net.ipv4.tcp_rmem": None, "net.ipv4.tcp_wmem": None,
               # what ns-2 does not have is off
               "net.ipv4.tcp_dsack": (0,), "net.ipv4.tcp_frto": (0,), "net.ipv4.tcp_early_retrans": (0,),
               "net.ipv4.tcp_recovery": (0,), "net.ipv4.tcp_moderate_rcvbuf": (0,)}
    MODULES = {name: (_SCRIPTS / "replay.tcl",) for name in ("tcp_tahoe", "tcp_reno_classic")}
    QUEUES = ("pfifo", "bfifo", "red")
    CHANGES = ("rate_bps", "delay_us", "limit")
    NO_LINKS = {**SimulatorEngine.NO_LINKS, "trace": "trace", "opportunities": "trace",
                **{name: "losses but those of queues" for name in ("loss_percent", "lose_segments")}}
    HOSTS = tuple(name for name in SimulatorEngine.HOSTS if name != "ecn")

    def problems(self) -> list[Problem]:
        missing = [(_PROGRAM, "ns-2", "ns2"), (shutil.which("setpriv"), "setpriv", "util-linux")]
        return [Problem(f"{what} is missing", f"apt-get install {package}") for path, what, package in missing
                if not path or not os.access(path, os.X_OK)]

    def prepare(self, report: Report) -> None:
        pass

    def find(self) -> bool:
        return not self.problems()

    def kernel_key(self) -> str:
        try:
            return f"ns2-{hashlib.sha256(open(_PROGRAM, 'rb').read()).hexdigest()[:12]}"
        except OSError:
            raise EnvironmentProblem("ns-2 is missing (apt-get install ns2)") from None

    def environment(self) -> dict[str, object]:
        return {"simulator": "ns-2", "kernel_key": self.kernel_key()}

    def code_sha256(self) -> str:
        scripts = [sha256_of(path) for path in sorted(_SCRIPTS.glob("*.tcl"))]
        return hashlib.sha256(" ".join([super().code_sha256(), *scripts]).encode()).hexdigest()

    def congestion_controls(self) -> Sequence[str]:
        return ("reno", *_ONE_WAY)

    def command(self) -> list[str]:
        # ns-2 must not outlive who started it
        return ["setpriv", "--pdeathsig", "KILL", _PROGRAM, str(_SCRIPTS / "driver.tcl")]

    def order_text(self, plan: Plan, work: Work, parts: Job) -> str:
        network = plan.scenario.network
        sack = {name: int(settings["net.ipv4.tcp_sack"]) for name, settings in parts.sysctls.items()}

        def chosen(flow: Flow) -> dict[str, object]:
            agents = _STUDIED if flow.has("segment_bytes") else _TWO_WAY
            kind = agents.get((str(flow.cca), sack[flow.sender]))
            return {"cca": flow.cca, "agent": kind or f"Linux:{flow.cca}"}

        return "".join([orders.line("run", seed=plan.seed % (2**31 - 2) + 1, duration_us=plan.timing.duration_us),
                        *orders.network(network, parts.sysctls), *changing.changes(network),
                        *orders.measurements(network), *orders.traffic(work, chosen), *orders.probes(plan)])
