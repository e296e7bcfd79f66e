# SPDX-License-Identifier: GPL-2.0-only
"""The captures of a run: what each end of each TCP connection sent, by its sequence numbers; tcptrace's view."""
import argparse
import gzip
import pathlib
import shutil
import subprocess
import tempfile

HELP = "the packets that a run's probe pcap captured: TCP by sequence numbers, tcptrace"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=pathlib.Path, help="a run's folder")
    parser.add_argument("--tcptrace", action="store_true", help="also what tcptrace says of each capture")


def main(arguments: argparse.Namespace) -> int:
    from analysis import captures
    from testbed.errors import EnvironmentProblem, UsageError
    found = sorted((arguments.run / "raw").glob("capture-*.pcap.gz"))
    if not found:
        raise UsageError(f"{arguments.run}: no captures in raw/; they come with --probe pcap")
    if arguments.tcptrace and not shutil.which("tcptrace"):
        raise EnvironmentProblem("tcptrace is missing (apt-get install tcptrace)")
    for path in found:
        print(path.name)
        for (src, dst), one in captures.sequences(captures.segments(path)).items():
            span_us = one.last_us - one.first_us
            rate = f", {one.new_bytes * 8 / span_us:.3f} Mbit/s" if span_us and one.new_bytes else ""
            print(f"  {src} > {dst}: {one.segments} segments, {one.new_bytes} bytes{rate}, "
                  f"{one.sent_again} sent again, {one.gap_bytes} bytes missing")
        if arguments.tcptrace:
            _tcptrace(path)
    return 0


def _tcptrace(path: pathlib.Path) -> None:
    """It reads plain files, and writes others into its working directory."""
    with tempfile.TemporaryDirectory() as folder:
        with gzip.open(path) as packed, open(f"{folder}/capture.pcap", "wb") as file:
            shutil.copyfileobj(packed, file)
        print(subprocess.run(["tcptrace", "-nlr", "capture.pcap"], cwd=folder, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, check=False).stdout)
