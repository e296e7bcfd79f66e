# SPDX-License-Identifier: GPL-2.0-only
"""The default kernel with the option `debug`: mistakes of a module that the usual kernel does not notice."""
import pytest

from testbed import engines
from tests.end_to_end import module_sources
from tests.kernel.small_runs import small_scenario

SMALL = {"traffic.tool": "sockets", "timing.test": "1 s"}


@pytest.fixture(scope="session")
def run_scenario(run_with, engine):
    """One of this file's own: the others' has their engine."""
    return run_with(engine)


@pytest.fixture(scope="session")
def engine():
    """The uml engine with that kernel."""
    ready = engines.load("uml", {"kernel_options": ["debug"]})
    ready.prepare(print)
    return ready


@pytest.fixture
def run_module(run_scenario, tmp_path):
    """Function: hook, its statements -> a run with a module that has them, from its 50th delivered segment on."""
    def run(hook, statements):
        arguments = {"pkts_acked": "struct sock *sk, const struct ack_sample *sample", "init": "struct sock *sk"}[hook]
        source = tmp_path / f"tcp_{hook.replace('_', '')}.c"
        text = module_sources.with_hook(
            "static DEFINE_SPINLOCK(lock);\nstatic char *memory;\n\n"
            f"static void on_{hook}({arguments})\n{{\n\tstruct tcp_sock *tp = tcp_sk(sk);\n\n\t(void)&lock;\n"
            f"\t(void)memory;\n\tif (tp->delivered > 50 || {int(hook == 'init')})\n\t\t{statements}\n}}\n",
            hook, "mistaken").replace(f"= mine_{hook},", f"= on_{hook},")
        source.write_text(text.replace("#include <net/tcp.h>", "#include <linux/slab.h>\n#include <net/tcp.h>"))
        return run_scenario(small_scenario(**SMALL), cca=str(source))
    return run


def test_it_has_no_complaints_of_what_is_right(run_scenario):
    run = run_scenario(small_scenario(**SMALL))
    verdict = run.json("verdict.json")
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert run.json("environment.json")["kernel_options"] == ["debug", "stock"]


@pytest.mark.parametrize("statements, words", [
    ("{ spin_lock(&lock); spin_lock(&lock); }", r"possible recursive locking detected \(.*\n.*on_pkts_acked\+0x"),
    ("kfree(kmalloc(64, GFP_KERNEL));", r"BUG: sleeping function|WARNING: inconsistent lock state"),
    ("{ memory = kmalloc(64, GFP_ATOMIC); memset(memory, 1, 65); kfree(memory); }",
     r"BUG kmalloc-64 .*\(memory beyond .*\n.*on_pkts_acked\+0x"),
], ids=["a lock taken twice", "GFP_KERNEL in softirq", "a byte too many"])
def test_mistakes_end_the_run(run_module, statements, words):
    with pytest.raises(AssertionError, match=words):
        run_module("pkts_acked", statements)


def test_where_memory_is_allocated_that_nobody_frees(run_module):
    run = run_module("init", "*(void **)inet_csk_ca(sk) = kmalloc(512, GFP_ATOMIC);")
    said, = [reason["message"] for reason in run.json("verdict.json")["reasons"] if "of each connection" in
             reason["message"]]
    assert "mistaken: the kernel keeps" in said and "512 B" in said and "allocated in on_init+0x" in said
