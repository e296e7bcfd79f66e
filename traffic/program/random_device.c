// SPDX-License-Identifier: GPL-2.0-only
/* Preloaded into the programs of traffic `program`: C++'s std::random_device asks the kernel.
 *
 * libstdc++ takes its numbers from the processor (RDSEED, RDRAND), which are others in each run. The guest's kernel
 * draws from the seed of the run. ngtcp2, for one, seeds the numbers of its packets with them, whose length on the wire
 * depends on their size.
 *
 * std::random_device has three functions in libstdc++ (GLIBCXX_3.4.18 and 3.4.21); these take their place.
 */
#include <sys/random.h>

/* void std::random_device::_M_init(std::string const &token) */
void _ZNSt13random_device7_M_initERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(void *device, const void *token)
{
	(void)device;
	(void)token;
}

/* void std::random_device::_M_fini() */
void _ZNSt13random_device7_M_finiEv(void *device)
{
	(void)device;
}

/* unsigned std::random_device::_M_getval() */
unsigned _ZNSt13random_device9_M_getvalEv(void *device)
{
	unsigned value;

	(void)device;
	while (getrandom(&value, sizeof value, 0) != sizeof value)
		;
	return value;
}
