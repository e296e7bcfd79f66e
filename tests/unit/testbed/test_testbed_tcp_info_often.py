# SPDX-License-Identifier: GPL-2.0-only
"""The probe tcp_info_often: only the hosts that are named, under their own names."""
import pandas as pd
import pytest

from testbed.core import fields, raw_tables
from testbed.probes import tcp_info, tcp_info_often
from tests.unit.testbed.no_network import NoNetwork
from tests.unit.testbed.probe_contexts import context
from tests.unit.testbed.tcp_info_dumps import attribute, socket_message, tcp_info_struct
from topologies.links.records import Network

NETWORK = {"nodes": [{"name": "n1", "role": "host"}, {"name": "r1", "role": "router"}, {"name": "n2", "role": "host"},
                     {"name": "n3", "role": "host"}]}


def test_named_hosts_only_in_their_order(tmp_path, monkeypatch):
    opened = iter(range(100))

    class Sockets:
        """Each has one socket, whose port tells which it is."""

        def __init__(self, family, ccas):
            self.port = 5000 + next(opened)

        def dump_into(self, write):
            write(memoryview(socket_message("10.0.1.2", self.port, "10.0.2.1", 80,
                                            attribute(2, tcp_info_struct(cwnd=self.port)), attribute(4, b"reno\0"))))

        def close(self):
            pass
    monkeypatch.setattr(tcp_info, "TcpSockets", Sockets)
    network, settings = NoNetwork(), {"hosts": ["n3", "n1"], "interval_us": 20_000}
    options = tcp_info_often.Options(**settings)
    sampler = tcp_info_often.Sampler(options, network, Network(NETWORK), str(tmp_path))
    assert sampler.interval_us == 20_000
    sampler.open()
    assert network.entered == ["n3", "n1"]
    for t_us in (0, 20_000):
        sampler.sample(t_us)
    assert sampler.close() == {}
    tcp_info_often.collect(tmp_path, tmp_path, context(tcp_info_often, NETWORK, **settings))
    table = pd.read_csv(tmp_path / "tcp_info_often.csv.gz")
    assert list(table) == raw_tables.TABLES["tcp_info_often"].names() == raw_tables.TABLES["tcp_info"].names()
    assert table[["t_us", "node", "sport", "cwnd"]].values.tolist() == [
        [0, "n1", 5001, 5001], [0, "n3", 5000, 5000], [20_000, "n1", 5001, 5001], [20_000, "n3", 5000, 5000]]
    assert not (tmp_path / "tcp_info.csv.gz").exists() and not (tmp_path / "tcp_info.bin").exists()


def test_hosts_have_to_be_there():
    options = fields.decode(tcp_info_often.Options, {"hosts": "n2", "interval_us": 20_000})
    assert options.hosts == ("n2",)
    tcp_info_often.validate(options, Network(NETWORK))
    for hosts, message in (("r1", "no host r1; there are: n1, n2, n3"), (["n2", "n4"], "no host n4")):
        with pytest.raises(fields.FieldError, match=message):
            tcp_info_often.validate(fields.decode(tcp_info_often.Options, {"hosts": hosts}), Network(NETWORK))
    often = fields.decode(tcp_info_often.Options, {"hosts": ["n1"], "interval_us": 20_000})
    tcp_info_often.beside(often, {"tcp_info": tcp_info.Options(interval_us=20_000)})
    rarer = {"tcp_info": tcp_info.Options(interval_us=10_000)}
    for others, message in (({}, "only with tcp_info beside it"),
                            (rarer, "at most that of tcp_info expected, 0.01 s, not 0.02")):
        with pytest.raises(fields.FieldError, match=message):
            tcp_info_often.beside(often, others)
    for given in ({}, {"hosts": []}, {"hosts": ["n1", "n1"]}):
        with pytest.raises(fields.FieldError):
            fields.decode(tcp_info_often.Options, given)
