# SPDX-License-Identifier: GPL-2.0-only
"""`import testbed` in Jupyter: the labs' notebooks in their short form, errors, and an interrupted kernel."""
from __future__ import annotations

import json
import pathlib
import queue
import time

import pytest

from tests.end_to_end.command_line import PROJECT

nbformat = pytest.importorskip("nbformat", reason="needs the Debian package python3-nbformat: make setup")
preprocessors = pytest.importorskip("nbconvert.preprocessors", reason="needs python3-nbconvert: make setup")
pytest.importorskip("ipykernel", reason="needs python3-ipykernel: make setup")

LABS = sorted(PROJECT.glob("docs/labs/*.ipynb"))
#: what each lab is there to show, as cells at its end
STORIES = {
    "bufferbloat": """
table = means(queues, "queueing_delay_mean", "utilisation", "udp_one_way_delay_mean:*", rows="kind")
delay, call = table["queueing_delay_mean (ms)"], table["udp_one_way_delay_mean (ms)"]
assert delay["pfifo"] > 200 and delay["codel"] < 10 and delay["fq_codel"] < 10, delay
assert call["pfifo"] > 200 and call["codel"] < 25 and call["fq_codel"] < 12.5 and table["utilisation (%)"].min() > 98
""",
    "congestion-control": """
busy = means(lossy, "utilisation")["utilisation (%)"]
assert busy["bbr"] > 95 and busy["reno"] < 75 and busy["cubic"] < 75, busy
delay = means(buffers, "queueing_delay_mean", rows=["cca", "limit"])["queueing_delay_mean (ms)"].unstack()
assert (delay.loc[["reno", "cubic"], 200] > 100).all() and delay.loc["bbr", 200] < 40, delay
assert set(lossy.compare("throughput_mean")["result"]) == {"n = 1: no verdict below 5 seeds"}
""",
    "sharing": """
ratio = distances.summary("throughput_ratio_short_long").set_index("cca")["mean"]
assert ratio["reno"] > 1.5 > ratio["bbr"] > 0.67, ratio
of = pairs.summary("mean_throughput_l4:*").set_index(["limit", "cca", "scope"])["mean"]
assert of[17, "cubic+bbr", "flow_2"] > 4 * of[17, "cubic+bbr", "flow_1"], of
""",
}


@pytest.fixture
def jupyter(testbed, monkeypatch):
    """Function: a notebook is executed, with its results in the test's own folder."""
    for name, value in {**testbed.environment, "PYTHONPATH": str(PROJECT), "LAB": "quick",
                        "PYDEVD_DISABLE_FILE_VALIDATION": "1"}.items():
        monkeypatch.setenv(name, value)

    def execute(notebook, folder=testbed.folder, **options):
        runner = preprocessors.ExecutePreprocessor(timeout=600, kernel_name="python3", **options)
        runner.preprocess(notebook, {"metadata": {"path": str(folder)}})
        return notebook
    return execute


def notebook_of(*cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_lab(path: pathlib.Path, jupyter):
    """All cells run, runs are valid, there are tables and pictures, and they show what the lab is about."""
    notebook = nbformat.read(path, 4)
    notebook.cells.append(nbformat.v4.new_code_cell(STORIES[path.stem]))
    jupyter(notebook, path.parent)
    shown = [output.data for output in outputs(notebook) if "data" in output]
    assert not [output for output in outputs(notebook) if output.output_type in ("error", "stream")]
    assert sum("image/png" in data for data in shown) >= 2 and sum("text/html" in data for data in shown) >= 2
    told = [data["text/plain"] for data in shown if " runs: " in data["text/plain"]]
    assert told and not [text for text in told if any(word in text for word in ("suspect", "invalid", "failed"))], told


@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_a_lab_is_kept_as_it_is_before_it_is_run(path: pathlib.Path):
    notebook = json.loads(path.read_text())
    assert notebook["metadata"] == {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
    page = path.with_suffix(".md").read_text()
    assert f"]({path.name})" in page and f"]({path.stem}.md)" in path.read_text()


def test_one_run_its_tables_its_picture_and_an_error(testbed, jupyter):
    scenario = testbed.scenario()
    done = jupyter(notebook_of(
        f"import testbed\nfound = testbed.run({scenario!r}, ccas=['reno', 'cubic'], seeds=[2])\nfound",
        "found.summary('throughput')", "found.figure('queueing_delay')",
        f"again = testbed.run({scenario!r}, ccas='cubic', seeds=[2], progress=False)\n"
        "[run.name for run in again.runs], [run.name for run in testbed.open(found.name).runs]",
        "testbed.run('smal')"), allow_errors=True)
    progress, experiment = done.cells[0].outputs
    assert progress.output_type == "display_data"
    assert progress.data["text/plain"].startswith("small: reno, cubic; 1 seed, 3 s of virtual time each: 2 of 2 runs: "
                                                  "2 valid, ")
    assert experiment.data["text/plain"] == "<small: 2 runs of reno, cubic; 1 seed>"
    table, = done.cells[1].outputs
    assert "text/html" in table.data and "throughput_mean" in table.data["text/plain"]
    picture, = done.cells[2].outputs
    assert "image/png" in picture.data and picture.metadata["image/png"]["width"] == 1000
    names, = done.cells[3].outputs
    assert names.data["text/plain"] == "(['cubic-seed2'], ['reno-seed2', 'cubic-seed2'])"
    error, = done.cells[4].outputs
    assert error.ename == "UsageError" and error.traceback == [f"UsageError: {error.evalue}"]


def test_an_interrupted_kernel_cleans_up_and_goes_on(testbed, jupyter):
    from jupyter_client.manager import start_new_kernel
    scenario = testbed.scenario("3000 s")
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(testbed.folder.parent))
    try:
        asked = client.execute(f"import testbed\ntestbed.run({scenario!r}, ccas='reno', seeds=2)")
        said, end, interrupted = [], time.monotonic() + 300, False
        while not (said and said[-1]["msg_type"] == "error"):
            assert time.monotonic() < end, said
            try:
                message = client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") == asked:
                said.append(message)
            if message["msg_type"] == "update_display_data" and len(testbed.processes()) > 1 \
                    and " traffic " in message["content"]["data"]["text/plain"] and not interrupted:
                interrupted = True
                manager.interrupt_kernel()
        assert said[-1]["content"]["traceback"] == [
            "interrupted; finished runs are kept, the same command goes on from here"]
        testbed.assert_nothing_left()
        while client.get_shell_msg(timeout=300)["parent_header"].get("msg_id") != asked:
            pass
        for _ in range(20):                     # a kernel leaves out what is asked right after an error
            reply = client.execute_interactive(
                f"testbed.run({scenario!r}, ccas='reno', seeds=[1], set={{'timing.test': '2 s'}}, progress=False)",
                timeout=300)
            if reply["content"]["status"] != "aborted":
                break
            time.sleep(0.5)
        assert reply["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
