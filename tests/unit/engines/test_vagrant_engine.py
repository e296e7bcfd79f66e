# SPDX-License-Identifier: GPL-2.0-only
"""Engine `vagrant` with programs in place of vagrant and ssh: what it asks for, what comes back, what it says."""
import io
import json
import os
import pathlib
import signal
import subprocess
import tarfile
import time

import pytest

from testbed import PROJECT_DIR, cli, engines
from testbed.core import archive
from testbed.core.errors import RunFailed
from testbed.engines.vagrant import machine

HERE = pathlib.Path(__file__).parent
#: notes what it is asked for; `up` makes a machine
VAGRANT = """\
#!/bin/sh
echo "$*" >> "$STAND_IN/asked"
case $1 in
plugin) cat "$STAND_IN/plugins" ;;
up) if [ -e "$STAND_IN/up-error" ]; then cat "$STAND_IN/up-error" >&2; exit 1; fi
    echo '==> default: Booting VM...'; mkdir -p "$VAGRANT_DOTFILE_PATH/machines/default/libvirt"
    echo 1 > "$VAGRANT_DOTFILE_PATH/machines/default/libvirt/id" ;;
ssh-config) [ -e "$VAGRANT_DOTFILE_PATH/machines/default/libvirt/id" ] && echo "Host default" ;;
esac
"""
SSH = """\
#!/bin/sh
[ ! -e "$STAND_IN/unreachable" ] || { echo 'ssh: connect to host: No route to host' >&2; exit 255; }
PYTHONPATH="$HERE/../../.." exec /usr/bin/python3 -m tests.unit.engines.vagrant_stand_in "$STAND_IN/inside"
"""
PIPE = """\
name: pipe
topology:
  {kind: dumbbell, central: {rate: 10 Mbit/s}, edge: {rate: 100 Mbit/s}, left_delays: [0 ms], right_delays: [2 ms]}
traffic: {kind: greedy, tool: sockets}
timing: {test: 2 s}
probes: {queue: {interval: 100 ms}}
defaults: {ccas: [reno]}
"""


@pytest.fixture(autouse=True)
def stand_in(tmp_path, monkeypatch):
    """The folder of the programs that stand in; what they were asked is in `asked`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("vagrant", VAGRANT), ("ssh", SSH), ("rsync", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "plugins").write_text("vagrant-libvirt (0.11.2, system)\n")
    (tmp_path / "asked").write_text("")
    for name, value in {"PATH": f"{programs}:/usr/bin:/bin", "STAND_IN": str(tmp_path), "HERE": str(HERE),
                        "VAGRANT_DOTFILE_PATH": str(tmp_path / "dot"), "TESTBED_RESULTS": str(tmp_path / "results"),
                        "TOY": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("VAGRANT_DEFAULT_PROVIDER", raising=False)
    monkeypatch.setattr(machine, "_GEMS", tmp_path / "gems")
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def scenario(tmp_path):
    (tmp_path / "pipe.yaml").write_text(PIPE)
    return tmp_path / "pipe.yaml"


def run(scenario, *words):
    return cli.main(["run", str(scenario), "--engine", "vagrant", "--no-report", *words])


def only_run(stand_in):
    found, = (stand_in / "results" / "runs").glob("[!.]*")
    return found


def test_a_run_inside(stand_in, scenario, capsys):
    assert run(scenario) == 0
    said = capsys.readouterr().err
    assert "Booting VM..." in said and "traffic 1 of 2 s" in said
    folder = only_run(stand_in)
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"
    assert (folder / "raw" / "queue.csv.gz").is_file() and not (folder / "received").exists()
    assert (folder / "log.txt").read_text() == "nothing happened\n"
    environment = json.loads((folder / "environment.json").read_text())
    assert (environment["engine"], environment["clock"]) == ("vagrant", "real")
    assert environment["simulator"] == "toy 1" and environment["virtual_machine"]["machine"]
    assert (stand_in / "asked").read_text().split("\n")[:-1] == ["plugin list", "up", "ssh-config", "rsync"]
    assert list((stand_in / "inside").iterdir()) == []
    # and once more: nothing is run twice, and the machine is there
    assert run(scenario) == 0
    assert (stand_in / "asked").read_text().count("up\n") == 1


def test_a_run_that_fails_is_kept_with_its_log(stand_in, scenario, monkeypatch, capsys):
    monkeypatch.setenv("TOY", "fails")
    assert run(scenario) == 4
    assert "in the virtual machine: inside the run: no luck" in capsys.readouterr().err
    assert (only_run(stand_in) / "log.txt").read_text() == "a log\n"
    assert list((stand_in / "inside").iterdir()) == []


def test_a_machine_that_goes_away(stand_in, scenario, monkeypatch, capsys):
    monkeypatch.setenv("TOY", "dies")
    assert run(scenario) == 4
    assert "the virtual machine ended the conversation" in capsys.readouterr().err


def test_a_machine_that_cannot_be_reached(stand_in, scenario, capsys):
    (stand_in / "unreachable").write_text("")
    assert run(scenario) == 4
    assert "the virtual machine cannot be reached: ssh: connect to host: No route to host" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_nothing_goes_on_inside_when_the_command_ends(stand_in, scenario, number):
    process = subprocess.Popen([PROJECT_DIR / "bin/testbed", "run", scenario, "--engine", "vagrant"],
                               env={**os.environ, "TOY": "hangs"}, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "traffic" in line and "of 2 s" in line:
            break
    process.send_signal(number)
    process.stderr.read()
    assert process.wait() in (130, -9)
    deadline = time.monotonic() + 120
    while list((stand_in / "inside").iterdir()):
        assert time.monotonic() < deadline, "the inner half still runs"
        time.sleep(0.2)


@pytest.mark.parametrize("toy, what", [
    ("problem", "in the virtual machine: no netem (boot another kernel)"),
    ("code", "the project in the virtual machine is not this one"),
])
def test_a_machine_that_cannot_be_used(scenario, monkeypatch, capsys, toy, what):
    monkeypatch.setenv("TOY", toy)
    assert run(scenario) == 3
    assert what in capsys.readouterr().err


@pytest.mark.parametrize("program", ["vagrant", "ssh", "rsync"])
def test_a_program_that_is_missing(stand_in, monkeypatch, program, capsys):
    (stand_in / "programs" / program).unlink()
    for name in ("sh", "python3", "cat", "git", "mkdir"):
        (stand_in / "programs" / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(stand_in / "programs"))
    assert cli.main(["run", "access-link", "--engine", "vagrant"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith(f"testbed: {program} is not installed (apt-get install ")
    assert "--engine uml, which needs none of it" in said[0]


def test_no_provider(stand_in, capsys):
    (stand_in / "plugins").write_text("No plugins installed.\n")
    assert cli.main(["run", "access-link", "--engine", "vagrant"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "neither VirtualBox nor the plugin vagrant-libvirt is installed" in said[0]
    (stand_in / "programs" / "VBoxManage").write_text("#!/bin/sh\n")
    (stand_in / "programs" / "VBoxManage").chmod(0o755)
    assert engines.load("vagrant").problems() == []


def test_the_plugin_as_debian_has_it(stand_in):
    (stand_in / "plugins").write_text("")
    (stand_in / "gems" / "vagrant-libvirt-0.11.2").mkdir(parents=True)
    assert engines.load("vagrant").problems() == [] and (stand_in / "asked").read_text() == ""


def test_a_box_that_cannot_be_had(stand_in, scenario, capsys):
    (stand_in / "up-error").write_text(
        "The box 'debian/bookworm64' could not be found or\ncould not be accessed in the remote catalog. "
        "If this is a private\nbox ... shown below:\n\n"
        "URL: ...\n")
    assert run(scenario) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "testbed: vagrant up: The box 'debian/bookworm64' could not be found or could not be accessed in the remote "
        "catalog; provision/box.sh makes a box of Debian packages (docs/howto/vagrant.md)")


def test_modules_are_built_inside(tmp_path):
    engine = engines.load("vagrant")
    engine.prepare(lambda text: None)
    (tmp_path / "tcp_toy.c").write_text("int x;")
    reports = []
    module = engine.build_module(str(tmp_path / "tcp_toy.c"), reports.append)
    assert (module.part_name("toy"), module.congestion_controls, module.sha256) == ("tcp_toy", ["toy"], "5" * 64)
    assert dict(module.renamed) == {"toy": "reno"}
    assert reports == ["building"]
    (tmp_path / "tcp_toy.c").write_text("error")
    with pytest.raises(RunFailed, match="^in the virtual machine: tcp_toy.c:1: error$"):
        engine.build_module(str(tmp_path / "tcp_toy.c"), reports.append)


def test_the_code_of_both_halves_decides(monkeypatch):
    mine, inner = engines.load("vagrant"), engines.load("host")
    assert mine.code_sha256() != inner.code_sha256()
    before = mine.code_sha256()
    monkeypatch.setattr(type(inner), "code_sha256", lambda self: "another")
    assert mine.code_sha256() != before


def packed(*members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("members", [
    [("../x", tarfile.REGTYPE)], [("/tmp/x", tarfile.REGTYPE)], [("a/../../x", tarfile.REGTYPE)],
    [("x", tarfile.SYMTYPE)], [("x", tarfile.LNKTYPE)], [("x", tarfile.FIFOTYPE)], [("x", tarfile.CHRTYPE)],
    [("x", tarfile.REGTYPE), ("x", tarfile.REGTYPE)], [("x", tarfile.REGTYPE), ("x/y", tarfile.REGTYPE)],
])
def test_an_archive_of_anything_but_files_is_refused(tmp_path, members):
    with pytest.raises(archive.BadArchive):
        archive.unpack(packed(*members), tmp_path / "to")
    assert not (tmp_path / "x").exists()


def test_no_archive_at_all(tmp_path):
    with pytest.raises(archive.BadArchive):
        archive.unpack(io.BytesIO(b"no archive at all" * 100), tmp_path / "to")


def test_folders_come_out_as_they_went_in(tmp_path):
    (tmp_path / "from" / "a").mkdir(parents=True)
    (tmp_path / "from" / "a" / "b").write_bytes(b"1" * 70_000)
    (tmp_path / "from" / "link").symlink_to("a")
    stream = io.BytesIO()
    archive.pack(tmp_path / "from", stream)
    stream.seek(0)
    archive.unpack(stream, tmp_path / "to")
    assert (tmp_path / "to" / "a" / "b").read_bytes() == (tmp_path / "to" / "link" / "b").read_bytes() == b"1" * 70_000
    assert not (tmp_path / "to" / "link").is_symlink()


def test_what_vagrant_says_is_one_line():
    assert machine.first_sentence("\nNo usable default\nprovider.\n\nVagrant relies on ...") == \
        "No usable default provider"
    assert machine.first_sentence("") == ""
