# SPDX-License-Identifier: GPL-2.0-only
"""Memory of the guest kernel: long copies and fills, and objects that are used again (kernel/patches/speed)."""
import re

import pytest

import kernel
from tests.kernel import module_builds

SOURCE = r"""
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#define MOST	2200

/* not the compiler's own: what calls of an unknown length get */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile fill)(void *, int, size_t) = memset;

static bool copies(const u8 *from, u8 *to, size_t length, int away)
{
	size_t at;

	for (at = 0; at < MOST + 32; at++)
		to[at] = 0xaa;
	if (copy(to + away, from + 7 - away, length) != to + away)
		return false;
	for (at = 0; at < MOST + 32; at++)
		if (to[at] != (at >= away && at < away + length ? from[at + 7 - 2 * away] : 0xaa))
			return false;
	if (fill(to + away, 0x155, length) != to + away)
		return false;
	for (at = 0; at < MOST + 32; at++)
		if (to[at] != (at >= away && at < away + length ? 0x55 : 0xaa))
			return false;
	return true;
}

static bool objects(void)
{
	static void *had[400], *again[4];
	struct kmem_cache *cache = kmem_cache_create("sample", 200, 0, 0, NULL);
	bool right = cache;
	int i, j;

	for (i = 0; i < 400; i++) {
		had[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		fill(had[i], i & 0xff, 200);
	}
	for (i = 0; i < 400; i++)
		for (j = 0; j < 200; j++)
			right &= ((u8 *)had[i])[j] == (i & 0xff);
	/* far from each other, in slabs of their own */
	for (i = 0; i < 4; i++)
		kmem_cache_free(cache, had[100 * i]);
	for (i = 3; i >= 0; i--) {
		again[i] = kmem_cache_zalloc(cache, GFP_KERNEL);
		pr_info("sample: last freed, first used: %d\n", again[i] == had[100 * i]);
		right &= !memchr_inv(again[i], 0, 200);
		had[100 * i] = again[i];
	}
	for (i = 0; i < 400; i++)
		kmem_cache_free(cache, had[i]);
	kmem_cache_shrink(cache);
	had[0] = kmem_cache_alloc(cache, GFP_KERNEL);
	kmem_cache_free(cache, had[0]);
	kmem_cache_destroy(cache);
	return right;
}

static int __init sample_init(void)
{
	u8 *from = kmalloc(MOST + 32, GFP_KERNEL), *to = kmalloc(MOST + 32, GFP_KERNEL);
	bool right = from && to;
	size_t length;
	int i;

	for (i = 0; i < MOST + 32; i++)
		from[i] = i * 31 + (i >> 8);
	for (length = 0; length <= MOST; length += length < 80 || (length > 490 && length < 600) ? 1 : 61)
		for (i = 0; i < 8; i++)
			right &= copies(from, to, length, i);
	pr_info("sample: copies %d objects %d\n", right, objects());
	kfree(from);
	kfree(to);
	return 0;
}

static void __exit sample_exit(void)
{
}

module_init(sample_init);
module_exit(sample_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("memory");
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """What the kernel says while it loads and unloads SOURCE."""
    folder, logs = tmp_path_factory.mktemp("memory"), []
    (folder / "Makefile").write_text("obj-m := memory.o\n")
    (folder / "memory.c").write_text(SOURCE)
    built = kernel.ensure()
    module = kernel.build_module_for(built, folder, print, lambda files: [[] for _ in files])
    logs.append(module_builds.load_and_unload(built, [module.file], folder)[1])
    return logs[0]


def test_copies_fills_and_objects_are_what_they_were(log):
    assert "sample: copies 1 objects 1" in log


def test_what_was_freed_last_is_used_first(log):
    """patches/speed/0015; a kernel that it does not fit takes any."""
    assert re.findall(r"last freed, first used: (\d)", log) == ["1"] * 4


def test_a_cache_gives_back_all_it_had(log):
    assert not re.search(r"still has objects|WARNING|BUG:|Call Trace", log)
