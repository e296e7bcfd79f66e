# SPDX-License-Identifier: GPL-2.0-only
"""There is something to judge: an engine without a kernel has to say, too, what its flows delivered.

With nothing but samples of queues hardly any check applies, and a verdict of those that do would be hollow.
"""
from collections.abc import Iterator

from testbed.checks import Evidence, Finding


def check(evidence: Evidence) -> Iterator[Finding]:
    # a network of radios only has no queues of links
    sampled = "queue" if evidence.network.links or not evidence.network.cells else "air"
    seen = evidence.has_rows(sampled)
    if not seen:
        yield Finding("suspect", "no queue was sampled" if sampled == "queue" else "no radio was sampled (probe air)")
    if not evidence.flows:
        yield Finding("suspect", "no flow is on record")
        return
    sources = [flow for flow in evidence.flows if flow.source is not None]
    others = [flow for flow in evidence.flows if flow.source is None]
    silent = []
    if sources and not evidence.has_rows("connections"):
        silent.append(f"{len(sources)} sources (raw/connections.csv.gz)")
    if others and not evidence.has_rows("tcp_info") and not _has_accounts(evidence):
        silent.append(f"{len(others)} flows (raw/tcp_info.csv.gz, or accounts in raw/guest.json)")
    if silent:
        yield Finding("suspect", f"no record of what was delivered by {' and '.join(silent)}: most checks do not apply")
    elif seen:
        yield Finding("ok", f"there are records of {'queues' if sampled == 'queue' else 'radios'}, and of what flows "
                            "delivered")


def _has_accounts(evidence: Evidence) -> bool:
    if not evidence.can("guest.json"):
        return False
    guest = evidence.guest
    return bool(guest.accounts) or any(account.content() for account in guest.traffic.values())
