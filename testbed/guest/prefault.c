// SPDX-License-Identifier: GPL-2.0-only
/* Preloaded into Python while it starts: memory comes whole, not page by page.
 *
 * A page fault of a guest's process costs the host 45 us, and the start of a Python program has 1,700 of them. Memory that
 * is locked is there at once, for a tenth of that. traffic/_memory.py ends it before traffic begins.
 */
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((constructor)) static void lock(void)
{
	unsetenv("LD_PRELOAD");		/* programs that this one starts are short, and do not gain by it */
	mlockall(MCL_CURRENT | MCL_FUTURE);
}
