# SPDX-License-Identifier: GPL-2.0-only
"""Programs of container images: the example of docs/howto/quic-interop.md, and what goes wrong with a root."""
import shutil
import subprocess
import tarfile

import pytest

from testbed import PROJECT_DIR
from tests.kernel import documented
from tests.kernel.small_runs import small_scenario
from traffic.io.payload import sequence

EXAMPLE = PROJECT_DIR / "docs/examples/interop"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with what the page makes: the images of both ends, a key and a certificate."""
    folder = tmp_path_factory.mktemp("interop")
    for program in ("gtlsserver", "gtlsclient"):
        if shutil.which(program, path="/usr/sbin:/usr/bin") is None:
            pytest.skip(f"there is no {program}: ngtcp2-server and ngtcp2-client")
    subprocess.run([EXAMPLE / "make_image.sh", folder / "server.tar"], check=True)
    shutil.copyfile(folder / "server.tar", folder / "client.tar")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=server", "-keyout", folder / "priv.key", "-out", folder / "cert.pem"], check=True,
                   capture_output=True)
    return folder


@pytest.fixture(scope="module")
def run(run_scenario, images):
    return run_scenario(documented.scenario("howto/quic-interop.md").replace("~/interop", str(images)))


def test_an_image_of_each_end_carries_what_was_requested(run):
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    got = (run.folder / "raw/program-quic-receiver-downloads-file").read_bytes()
    assert got == (sequence() * (2_000_000 // len(sequence()) + 1))[:2_000_000]


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_logs_are_kept_as_an_archive(run, end):
    with tarfile.open(run.folder / f"raw/program-quic-{end}-logs.tar") as file:
        logs = {member.name: member for member in file}
    assert [name for name in logs if name.startswith("logs/qlog/")]
    assert logs["logs/keys.log"].size > 100
    assert {(one.mtime, one.uid, one.uname) for one in logs.values()} == {(0, 0, "")}


def in_image(images, **end):
    return small_scenario(**{"timing": {"warmup": "500 ms", "test": "500 ms"}, "traffic": {
        "name": "one", "kind": "program", "sender": {"root": str(images / "server.tar"), **end}}})


def test_a_program_has_the_image_as_its_root_and_no_rights(run_scenario, images):
    script = 'echo /*; while read -r line; do case "$line" in Uid:*) echo $line;; esac; done < /proc/self/status; ' \
             'echo x > /dev/null && echo y > /www/new && echo $HOME'
    run = run_scenario(in_image(images, command=["sh", "-c", script], keep=["www/new"]))
    there, user, home = (run.folder / "raw/program-one-sender.out").read_text().splitlines()
    assert "/run_endpoint.sh" in there.split() and "/usr" not in there.split()
    assert user.split() == ["Uid:", *["65534"] * 4] and home == "/"
    assert (run.folder / "raw/program-one-sender-www-new").read_text() == "y\n"


@pytest.mark.parametrize("end, words", [
    ({"command": ["/run_endpoint.sh"], "environment": {"TESTCASE": "zerortt"},
      "files": {"setup.sh": {"text": "#!/bin/sh\n"}}}, "ended with status 127"),
    ({"command": ["/run_endpoint.sh"]}, "ended with status 1: there is no simulator"),
    ({"command": ["tcpdump"]}, "tcpdump: No such file or directory"),
    ({"command": ["sh", "-c", "exit 0"], "keep": ["none/"]}, "left no folder none/")])
def test_what_goes_wrong_in_an_image_is_a_line(run_scenario, images, end, words):
    with pytest.raises(AssertionError, match=words):
        run_scenario(in_image(images, **end))
