# SPDX-License-Identifier: GPL-2.0-only
"""How a ring's greedy senders connect: in one chain with their first write, whatever becomes of the connection."""
import pytest

import kernel
from tests.kernel import connecting_guest
from tests.kernel.guest_script import result_of

#: include/net/tcp_states.h
ESTABLISHED, SYN_SENT, FIN_WAIT1 = 1, 2, 4


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    result = result_of(kernel.ensure().program, connecting_guest.__file__, tmp_path_factory.mktemp("connecting"))
    assert result["chained"], "this kernel has no kernel/patches/speed/0008: nothing is chained"
    return result


def test_a_refused_connection_is_said(found):
    status, account, words, states = found["refused"]
    assert status == 1 and account is None and states == []
    assert words == "ConnectionRefusedError: [Errno 111] flow 3: Connection refused"


@pytest.mark.parametrize("how", ["stopped", "ended"])
def test_who_is_never_answered_gives_up_with_the_flow_or_the_run(found, how):
    status, account, words, states = found[f"unanswered and {how}"]
    assert (status, words) == (0, "")
    assert account["sent_bytes"] == {"3": 0} and [end["ccas"] for end in account["ends"]] == [{}]
    # besides the test's own connection, which takes the place
    assert states == ([ESTABLISHED] if how == "stopped" else [ESTABLISHED, SYN_SENT])


@pytest.mark.parametrize("how", ["stopped", "ended", "stopped at its start"])
def test_a_first_write_that_is_never_over_counts_as_far_as_it_came(found, how):
    status, account, words, states = found[f"unread and {how}"]
    assert (status, words) == (0, "")
    assert 1 << 14 < account["sent_bytes"]["3"] < 1 << 20 and [end["ccas"] for end in account["ends"]] == [{"reno": 1}]
    assert states == [ESTABLISHED if how == "ended" else FIN_WAIT1]


def test_what_is_written_arrives(found):
    status, account, words, states = found["read"]
    assert (status, words) == (0, "")
    sender, receiver = account["ends"]
    assert account["sent_bytes"] == account["received_bytes"] == {"3": receiver["checked_bytes"]}
    assert receiver["checked_bytes"] > 1 << 20 and not receiver["wrong_pieces"]
    assert sender["ccas"] == receiver["ccas"] == {"reno": 1}
