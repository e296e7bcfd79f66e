/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arithmetic of TCP Libra, for the kernel and, to be tested, for userspace.
 *
 * A window's growth spans thirty decimal orders over the range of this header:
 *
 *	rate C		10^4 .. 4 * 10^11 bit/s
 *	times		1 .. 10^8 us
 *	window W	1 .. 2^32 - 1 packets
 *	k1, k2		0 .. 100, in thousandths
 *
 * No single fixed point holds that, so factors are kept with 32 significant
 * bits and a binary exponent. All is u64, there is no overflow, and the
 * relative errors, which tests/unit/modules asserts, are
 *
 *	libra_exp(), _alpha()	< 1.5e-5	(almost all of it: interpolation)
 *	libra_growth()		< 1.5e-5	plus one unit of 2^-40 packets
 *	libra_ssthresh()	none, rounded down
 */
#ifndef _LIBRA_MATH_H
#define _LIBRA_MATH_H

#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/types.h>
#else
#include <linux/types.h>

typedef __u32 u32;
typedef __u64 u64;

static inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}
#endif

#define LIBRA_C_MIN	10000ULL		/* 0.01 Mbit/s */
#define LIBRA_C_MAX	400000000000ULL		/* 400 Gbit/s */
#define LIBRA_T_MIN	1U			/* 1 us */
#define LIBRA_T_MAX	100000000U		/* 100 s */
#define LIBRA_K_SCALE	1000U			/* 1.0 */
#define LIBRA_K_MAX	(100 * LIBRA_K_SCALE)	/* 100.0 */

/* Growth is in units of 2^-40 packets: 1 us and 100 Mbit/s give 22 of them
 * per ACK for a window of 10, in Q16 they would give none for ever.
 */
#define LIBRA_GROWTH_SHIFT	40
#define LIBRA_PACKET		((u64)1 << LIBRA_GROWTH_SHIFT)	/* 1.0 */

struct libra_params {
	u64 c;		/* capacity of the bottleneck, bit/s */
	u32 k1;		/* scalability, in thousandths */
	u32 k2;		/* penalty for queueing, in thousandths */
	u32 t0;		/* us */
	u32 t1;		/* us */
};

struct libra_rtt {
	u32 t;		/* smoothed, us; 0: no sample yet */
	u32 min;	/* of the connection, us */
	u32 max;
};

/* m * 2^e; bit 31 of m is set unless the number is 0 */
struct libra_num {
	u32 m;
	int e;
};

static inline struct libra_num libra_num(u64 value, int e)
{
	int shift = fls64(value) - 32;
	struct libra_num n = {};

	if (value) {
		n.m = shift > 0 ? value >> shift : value << -shift;
		n.e = e + shift;
	}
	return n;
}

static inline struct libra_num libra_mul(struct libra_num a, struct libra_num b)
{
	return libra_num((u64)a.m * b.m, a.e + b.e);
}

/* b must not be 0 */
static inline struct libra_num libra_div(struct libra_num a, struct libra_num b)
{
	return libra_num(div_u64((u64)a.m << 32, b.m), a.e - b.e - 32);
}

/* n in units of 2^-q, at most `most` */
static inline u64 libra_fixed(struct libra_num n, int q, u64 most)
{
	int shift = n.e + q;
	u64 value;

	if (!n.m || shift <= -32)
		return 0;
	if (shift > 31)
		return most;
	value = shift > 0 ? (u64)n.m << shift : (u64)n.m >> -shift;
	return value < most ? value : most;
}

/* 2^(-i/64), i = 0..64, in units of 2^-31 */
static const u32 libra_exp2_table[65] = {
	0x80000000, 0x7e9f0606, 0x7d41d96e, 0x7be86fba, 0x7a92be8b,
	0x7940bb9e, 0x77f25cce, 0x76a7980f, 0x75606374, 0x741cb528,
	0x72dc8374, 0x719fc4b9, 0x70666f76, 0x6f307a41, 0x6dfddbcc,
	0x6cce8ae1, 0x6ba27e65, 0x6a79ad56, 0x69540ec9, 0x683199ed,
	0x6712460b, 0x65f60a7f, 0x64dcdec3, 0x63c6ba64, 0x62b39509,
	0x61a3666d, 0x60962665, 0x5f8bccdb, 0x5e8451d0, 0x5d7fad59,
	0x5c7dd7a4, 0x5b7ec8f2, 0x5a82799a, 0x5988e209, 0x5891fac1,
	0x579dbc57, 0x56ac1f75, 0x55bd1cdb, 0x54d0ad5a, 0x53e6c9da,
	0x52ff6b55, 0x521a8ad7, 0x51382182, 0x50582888, 0x4f7a9930,
	0x4e9f6cd4, 0x4dc69cdd, 0x4cf022ca, 0x4c1bf829, 0x4b4a169c,
	0x4a7a77d4, 0x49ad1598, 0x48e1e9ba, 0x4818ee22, 0x47521cc6,
	0x468d6fae, 0x45cae0f2, 0x450a6abb, 0x444c0740, 0x438fb0cb,
	0x42d561b4, 0x421d1462, 0x4166c34c, 0x40b268fa, 0x40000000,
};

/*
 * The penalty for queueing, exp(-x) with
 *
 *	x = k2 (T - Tmin) / (Tmax - Tmin)
 *
 * exp(-x) = 2^-y with y = x log2(e) = n + f, n whole: 2^-f is interpolated
 * between the two of 65 points around it, 2^-n is an exponent.
 * With points 1/64 apart the error is (ln(2) / 64)^2 / 8 = 1.47e-5.
 */
static inline struct libra_num libra_exp(const struct libra_params *p,
					 const struct libra_rtt *rtt)
{
	/* log2(e) = 1.4426950408889634, in units of 2^-31 */
	const struct libra_num log2_e = { 0xb8aa3b29, -31 };
	struct libra_num x;
	u32 low, step;
	u64 y;
	int i;

	/* no queue has been seen, or there is none now */
	if (rtt->max <= rtt->min || rtt->t <= rtt->min)
		return libra_num(1, 0);

	x = libra_num((u64)p->k2 * (rtt->t - rtt->min), 0);
	x = libra_div(x, libra_num((u64)LIBRA_K_SCALE * (rtt->max - rtt->min), 0));
	y = libra_fixed(libra_mul(x, log2_e), 32, 1ULL << 40);

	i = (y >> 26) & 63;
	low = libra_exp2_table[i];
	step = low - libra_exp2_table[i + 1];
	low -= ((u64)step * (y & ((1U << 26) - 1))) >> 26;
	return libra_num(low, -31 - (int)(y >> 32));
}

/* alpha = k1 C exp(-x), C in Mbit/s */
static inline struct libra_num libra_alpha(const struct libra_params *p,
					   const struct libra_rtt *rtt)
{
	const u64 scale = 1000000ULL * LIBRA_K_SCALE;
	struct libra_num a = libra_div(libra_num(p->k1 * p->c, 0),
				       libra_num(scale, 0));

	return libra_mul(a, libra_exp(p, rtt));
}

/*
 * Growth of a window of w packets per acknowledged packet
 *
 *	alpha T^2 / ((T0 + T) W)
 *
 * with times in seconds: with both in us, a factor of 10^-6 is left over.
 * At most one packet, the speed of slow start.
 */
static inline u64 libra_growth(const struct libra_params *p,
			       const struct libra_rtt *rtt, u32 w)
{
	const u64 us_per_s = 1000000;
	struct libra_num g = libra_alpha(p, rtt);

	g = libra_mul(g, libra_num((u64)rtt->t * rtt->t, 0));
	g = libra_div(g, libra_num(((u64)p->t0 + rtt->t) * w, 0));
	g = libra_div(g, libra_num(us_per_s, 0));
	return libra_fixed(g, LIBRA_GROWTH_SHIFT, LIBRA_PACKET);
}

/*
 * The window of w packets after an ACK of `acked` of them. What is no whole
 * packet yet is kept in *credit.
 */
static inline u32 libra_grow(const struct libra_params *p,
			     const struct libra_rtt *rtt, u64 *credit,
			     u32 w, u32 acked)
{
	/* 2^40 per packet times 2^20 packets fit well */
	if (acked > 1U << 20)
		acked = 1U << 20;

	*credit += libra_growth(p, rtt, w) * acked;
	w += *credit >> LIBRA_GROWTH_SHIFT;
	*credit &= LIBRA_PACKET - 1;
	return w;
}

/*
 * Window after a loss
 *
 *	W - T1 W / (2 (T0 + T))
 *
 * rounded down, as Reno's is, and at least 2 packets.
 */
static inline u32 libra_ssthresh(const struct libra_params *p,
				 const struct libra_rtt *rtt, u32 w)
{
	u64 divisor = 2 * ((u64)p->t0 + rtt->t);
	u64 less = div64_u64((u64)p->t1 * w + divisor - 1, divisor);

	return less + 2 < w ? w - less : 2;
}

#endif
