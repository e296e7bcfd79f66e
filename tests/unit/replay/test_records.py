# SPDX-License-Identifier: GPL-2.0-only
"""Records and what `collect` makes of them: known answers."""

import gzip
from array import array

import pytest

from tests.unit.replay.plans import collect, make_plan
from traffic.replay.collect import CollectError, read_records
from traffic.replay.endpoint import End, JobError
from traffic.replay.records import ACCEPTOR, FINISHED, INITIATOR, NEVER, UNFINISHED, RecordsError, records_name

CONNECTIONS = [(100, [(0, 0, 300), (500, 0, 40), (500, 9, 0)], [(300, 5, 500)], 536),
               (200, [(0, 0, 10)], [(0, 0, 20), (10, 0, 0)], 1460),
               (300, [(0, 0, 1)], [(1, 0, 0)])]


@pytest.fixture
def ends(tmp_path):
    """Both ends of source 4 on nodes n1 and n5."""
    plan = tmp_path / "plan"
    make_plan(plan, CONNECTIONS)
    entry = {"source": 4, "plan": str(plan), "port": 700}
    return (End({**entry, "role": INITIATOR, "local": "10.0.0.1", "peer": "10.0.0.5"}, "n1"),
            End({**entry, "role": ACCEPTOR, "local": "10.0.0.5", "peer": "10.0.0.1"}, "n5"))


def fill(ends):
    """One connection finished, one unfinished, one refused."""
    init, acc = (end.records for end in ends)
    for i, (status, start, connected, end, read) in enumerate([
            (FINISHED, 101, 111, 190, 500), (UNFINISHED, 200, 222, NEVER, 7),
            (-111, 300, NEVER, 310, 0)]):
        init.status[i], init.start_us[i], init.connected_us[i] = status, start, connected
        init.end_us[i], init.read_bytes[i] = end, read
    for i, (status, end, read) in enumerate([(FINISHED, 200, 340), (FINISHED, 600, 10)]):
        acc.status[i], acc.end_us[i], acc.read_bytes[i] = status, end, read
    init.sent_us[0:4], acc.delivered_us[0:4] = array_of(112, 140, 180, 223), array_of(
        120, 150, NEVER, 230)
    acc.sent_us[0:2], init.delivered_us[0:1] = array_of(125, 231), array_of(135)


def array_of(*values):
    return array("q", values)


def write(ends, folder):
    for end in ends:
        end.records.write(folder / records_name(end.name, end.role))


def test_round_trip(ends, tmp_path):
    fill(ends)
    write(ends, tmp_path)
    header, columns = read_records(tmp_path / "plan.initiator.records")
    assert (header["node"], header["port"], header["connections"]) == ("n1", 700, 3)
    assert columns["start_us"].tolist() == [101, 200, 300]
    assert columns["sent_us"].tolist() == [112, 140, 180, 223, NEVER]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "plan", "plan.acceptor.records", "plan.initiator.records"]


def test_collect(ends, tmp_path):
    fill(ends)
    write(ends, tmp_path)
    account = collect(4, tmp_path)
    assert account == {
        "connections": 3, "status": {"finished": 1, "unfinished": 1, "failed: ECONNREFUSED": 1},
        "adus_asked": 6, "adus_delivered": 4, "bytes_asked": 871, "bytes_delivered": 857,
        "mismatches": [], "overdue": []}
    packed = (tmp_path / "connections.csv.gz").read_bytes()
    assert gzip.decompress(packed).decode() == """\
source,conn,initiator,acceptor,iport,aport,prefill,scheduled_us,start_us,connected_us,end_us,\
init_bytes_asked,init_bytes_delivered,acc_bytes_asked,acc_bytes_delivered,adus_asked,\
adus_delivered,status
4,0,n1,n5,1024,700,0,100,101,111,200,340,340,500,500,3,3,finished
4,1,n1,n5,1025,700,0,200,200,222,,10,10,20,7,2,1,unfinished
4,2,n1,n5,1026,700,0,300,300,,310,1,0,0,0,1,0,failed: ECONNREFUSED
"""
    assert gzip.decompress((tmp_path / "adus.csv.gz").read_bytes()).decode() == """\
source,conn,side,index,bytes,sent_us,delivered_us
4,0,i,0,300,112,120
4,0,i,1,40,140,150
4,0,a,0,500,125,135
4,1,i,0,10,223,230
4,1,a,0,20,231,
4,2,i,0,1,,
"""
    collect(4, tmp_path)
    assert (tmp_path / "connections.csv.gz").read_bytes() == packed


def test_mismatch_is_reported(ends, tmp_path):
    fill(ends)
    ends[1].records.read_bytes[0] = 339
    write(ends, tmp_path)
    account = collect(4, tmp_path)
    assert account["mismatches"] == [
        "source 4, connection 0: 339 of 340 bytes of the initiator delivered"]


def test_other_plan(ends, tmp_path):
    write(ends, tmp_path)
    make_plan(tmp_path / "plan", CONNECTIONS[:2])
    with pytest.raises(CollectError, match="another plan"):
        collect(4, tmp_path)


def test_truncated(ends, tmp_path):
    write(ends, tmp_path)
    path = tmp_path / "plan.acceptor.records"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(RecordsError, match="its header says"):
        read_records(path)


def test_ports(tmp_path):
    """The acceptor inverts the initiator's ports; with more connections than ports by time."""
    make_plan(tmp_path / "plan", [(1000 * i, [(0, 0, 1), (0, 0, 0)], []) for i in range(7)])
    end = End({"source": 0, "plan": str(tmp_path / "plan"), "port": 1, "role": ACCEPTOR,
               "local": "10.0.0.5", "peer": "10.0.0.1", "ports": [5000, 3]}, "n1")
    assert [end.port_of(i) for i in range(7)] == [5000, 5001, 5002, 5000, 5001, 5002, 5000]
    for i in range(7):
        assert end.index_of(end.port_of(i), 1000 * i) == i
        assert end.index_of(end.port_of(i), 1000 * i + 2999) == i
    assert end.index_of(5002, 1999) is None
    assert end.index_of(4999, 9000) is None and end.index_of(5003, 9000) is None


@pytest.mark.parametrize("change, message", [
    ({"role": "client"}, "role"), ({"ports": [65000, 1000]}, "ports"), ({"local": "n1"}, "n1"),
    ({"port": None}, None)])
def test_bad_endpoints(tmp_path, change, message):
    make_plan(tmp_path / "plan", CONNECTIONS)
    entry = {"source": 0, "plan": str(tmp_path / "plan"), "port": 1, "role": ACCEPTOR,
             "local": "10.0.0.5", "peer": "10.0.0.1", **change}
    with pytest.raises(JobError, match=message):
        End(entry, "n1")
