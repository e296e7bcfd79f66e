# SPDX-License-Identifier: GPL-2.0-only
"""`expect:` in scenario files: what it may say, how it is refused, that it is no part of a run."""
import re

import pytest

from analysis import metrics
from testbed import PROJECT_DIR
from testbed.core import expectations, metric_names
from testbed.core.errors import ScenarioError
from testbed.core.fields import FieldError
from testbed.scenario import scenario

PAGE = (PROJECT_DIR / "docs/howto/expectations.md").read_text()


@pytest.fixture
def file(tmp_path):
    """Function that writes the scenario of docs/howto/expectations.md with other expectations."""
    def write(*lines):
        path = tmp_path / "mine.yaml"
        text = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
        path.write_text(text[:text.index("expect:")] + "\n".join(lines) + "\n" if lines else text)
        return path
    return write


@pytest.mark.parametrize("text, said", [
    ("utilisation > 0.9", "utilisation > 90 %"), ("utilisation>90%", "utilisation > 90 %"),
    ("utilisation > 0.07", "utilisation > 7 %"), ("drop_rate <= 0", "drop_rate <= 0 %"),
    ("throughput_mean:right_to_left >= 50", "throughput_mean:right_to_left >= 50 Mbit/s"),
    ("throughput_mean:all >= 50000 kbit/s", "throughput_mean:all >= 50 Mbit/s"),
    ("queueing_delay_p99 < 0.02 s", "queueing_delay_p99 < 20 ms"), ("timeouts == 0", "timeouts == 0"),
    ("flow_completion_time_p50:bytes_1000_to_3163 < 1e3 ms", "flow_completion_time_p50:bytes_1000_to_3163 < 1 s"),
    ("slowdown_p95 < 3", "slowdown_p95 < 3"), ("cwnd_mean > 10 segments", "cwnd_mean > 10 segments")])
def test_what_may_be_said(text, said):
    assert expectations.parse(text).text == said
    assert expectations.parse(said) == expectations.parse(text)


@pytest.mark.parametrize("text, error", [
    ("utilisation", "METRIC"), ("utilisation > ", "METRIC"), ("utilisation = 1", "comparisons are: <, <=, >, >=, =="),
    ("utilisation > nan", "METRIC"), (7, "METRIC"), ("x" * 300, "METRIC"), ("a > 1\nb > 1", "METRIC"),
    ("utilization > 0.9", "no metric utilization; close to it are utilisation"),
    ("utilisation > 90", "utilisation is in %: 90 % expected, or a share from 0 to 1"),
    ("throughput_mean > 5 ms", "throughput_mean is in Mbit/s, not in ms"),
    ("cwnd_mean > 5 kB", "cwnd_mean is in segments, not in kB"), ("timeouts < 5 ms", "a plain number, not in ms"),
    ("timeouts < 1e999", "1e999: at most 1e+300"), ("drops:\x1b[31m > 9", "METRIC")])
def test_what_is_refused(text, error):
    with pytest.raises(FieldError, match=re.escape(error)):
        expectations.parse(text)


@pytest.mark.parametrize("lines, error", [
    (["expect:", "  - utilisation > 0.9", "  - throughputs > 1"], ":13: expect.2: no metric throughputs"),
    (["expect: utilisation > 0.9"], ":11: expect: a list of expectations"),
    (["expect:", "  - {that: drops < 1, cca: []}"], ":12: expect.1.cca: a list of at least 1"),
    (["expect:", "  - that: drops < 1 ms"], ":12: expect.1.that: drops is in packets, not in ms"),
    (["expect:", "  - utilisation: 0.9"], ":12: expect.1.utilisation: unknown field"),
    (["expect:", "  - {that: drops < 1, from: 2}"], ":12: expect.1.from: a value with a unit"),
    (["expect:", "  - {that: drops < 1, from: 2 MB}"], ":12: expect.1.from: "),
    (["expect:", "  - that: drops < 1", "    from: 2 s", "    to: 7 s"],
     ":14: expect.1.to: the window ends at 7 s; what is measured begins at 1 s and ends at 6 s"),
    (["expect:", "  - {that: drops < 1, from: 0 s}"], ":12: expect.1.from: the window begins at 0 s; what is measured"),
    (["expect:", "  - {that: drops < 1, to: 500 ms}"], ":12: expect.1.to: the window begins at 1 s and ends at 0.5 s"),
    (["expect:", "  - {that: drops < 1, after: greedy.stop}"], ":12: expect.1.after: the window begins at 6 s and"),
    (["expect:", "  - {that: drops < 1, after: greedy.start}"], ":12: expect.1.after: the window begins at 0 s; what"),
    (["expect:", "  - {that: drops < 1, after: greedy}"], ":12: expect.1.after: COMPONENT.start or COMPONENT.stop"),
    (["expect:", "  - utilisation > 0.9", "  - {that: drops < 1, after: tmix.stop}"],
     ":13: expect.2.after: no component 'tmix'; there are: greedy"),
    (["expect:", "  - {that: queueing_delay_p99 < 1 s, from: 2 s}"],
     ":12: expect.1.that: queueing_delay_p99 is not known of a part of a run; these are: arrived_"),
    (["expect: []", "quick: {expect: [drops < 1 %]}"], ":12: expect.1: drops is in packets"),
])
def test_file_line_and_field_are_told(file, lines, error):
    path = file(*lines)
    with pytest.raises(ScenarioError) as caught:
        scenario.load(str(path), quick=any("quick" in line for line in lines))
    assert str(caught.value).startswith(f"{path}{error}"), caught.value


def test_no_part_of_a_run(file):
    path = file()
    one, other = scenario.load(str(path)), scenario.load(str(path), settings=["expect=[drops < 1]"])
    assert [each.text for each in one.expect] == ["utilisation > 90 %", "throughput_mean:right_to_left >= 9 Mbit/s",
                                                  "queueing_delay_mean < 100 ms",
                                                  "throughput_mean > 9 Mbit/s from 2 s to 4 s after greedy.start"]
    assert one.expect[2].ccas == ("cubic", "bbr") and [each.text for each in other.expect] == ["drops < 1 packets"]
    assert one.resolved() == other.resolved()


@pytest.mark.parametrize("window, interval", [
    ((2_000_000, 5_000_000, ""), (2_000_000, 5_000_000)), ((None, 5_000_000, ""), (1_000_000, 5_000_000)),
    ((2_000_000, None, ""), (2_000_000, 9_000_000)), ((None, None, "cross.stop"), (4_000_000, 9_000_000)),
    ((500_000, 1_000_000, "cross.stop"), (4_500_000, 5_000_000)), ((None, 1, "cross.start"), (3_000_000, 3_000_001))])
def test_a_window_in_time(window, interval):
    components = [{"name": "long", "start_us": 0, "stop_us": 9_000_000},
                  {"name": "cross", "start_us": 3_000_000, "stop_us": 4_000_000}]
    assert expectations.Window(*window).interval_us(components, 1_000_000, 9_000_000) == interval


def test_every_file_of_metrics_names_them():
    known = metric_names.units()
    for name in metrics.names():
        units = metrics.module(name).UNITS
        assert units and {metric: known[metric] for metric in units} == units, name
        assert set(getattr(metrics.module(name), "RATIOS", ())) <= set(units)
        windowed = getattr(metrics.module(name), "WINDOWED", set())
        assert windowed <= set(units) and windowed <= metric_names.windowed()
        assert all(any(metric == one or metric.startswith(f"{one}_p") for metric in units)
                   for one in getattr(metrics.module(name), "CENSORED", ()))
