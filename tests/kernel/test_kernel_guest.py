# SPDX-License-Identifier: GPL-2.0-only
"""The guest kernel itself: floating point across processes, and modules built against it."""
import pytest

import kernel
from tests.kernel import float_runs
from tests.kernel.small_runs import OF_THE_TREE


@pytest.fixture(scope="module")
def built():
    return kernel.ensure()


def test_floating_point_survives_switches_and_signals(built, tmp_path):
    """kernel/patches/speed/0001 leaves FP registers in the traced process: none may get mixed up."""
    assert float_runs.found(built, tmp_path) == (float_runs.expected_sums(), 0)


def _module(folder, source):
    (folder / "Makefile").write_text("obj-m := tcp_sample.o\n")
    (folder / "tcp_sample.c").write_text(source)
    return folder


SAMPLE = """\
#include <linux/module.h>
#include <net/tcp.h>
static struct tcp_congestion_ops sample __read_mostly = {
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.name		= "sample",
	.owner		= THIS_MODULE,
};
static int __init sample_init(void) { return tcp_register_congestion_control(&sample); }
static void __exit sample_exit(void) { tcp_unregister_congestion_control(&sample); }
module_init(sample_init);
module_exit(sample_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("a sample");
"""


def test_out_of_tree_module_builds(built, tmp_path):
    module = kernel.build_module(built, _module(tmp_path, SAMPLE))
    assert (module.file.name, module.congestion_controls, module.warnings) == ("tcp_sample.ko", ("sample",), "")
    assert kernel.find_module(built.key, module.sha256).file == module.file


def test_compiler_errors_are_shown_with_file_and_line(built, tmp_path):
    with pytest.raises(kernel.KernelError, match=r"tcp_sample\.c:4:"):
        kernel.build_module(built, _module(tmp_path, SAMPLE.replace("= tcp_reno_ssthresh", "= tcp_no_such_thing")))


def test_kernel_has_the_congestion_controls_of_the_tree(built):
    assert set(built.congestion_controls) == OF_THE_TREE


def test_second_call_builds_nothing(built):
    said = []
    assert kernel.ensure(None, said.append) == built
    assert said == []
