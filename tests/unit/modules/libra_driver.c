// SPDX-License-Identifier: GPL-2.0-only
/*
 * libra_math.h on standard input: records of numbers in, results out.
 *
 * libra_driver values: per record of c k1 k2 t0 t1 t min max w, the growth, the threshold,
 *	and mantissas and exponents of alpha and exp
 * libra_driver grow: per record of c k1 k2 t0 t1 t min max w acked acks, the window after
 *	that many ACKs and the credit left
 */
#include <stdio.h>
#include <string.h>

#include "libra_math.h"

int main(int argc, char **argv)
{
	int grow = argc > 1 && !strcmp(argv[1], "grow");
	u64 in[11];

	while (fread(in, sizeof(*in), grow ? 11 : 9, stdin)) {
		struct libra_params p = {
			.c = in[0], .k1 = in[1], .k2 = in[2], .t0 = in[3], .t1 = in[4],
		};
		struct libra_rtt rtt = { .t = in[5], .min = in[6], .max = in[7] };
		u64 out[6] = {};
		u32 w = in[8];

		if (grow) {
			for (u64 i = 0; i < in[10]; i++)
				w = libra_grow(&p, &rtt, &out[1], w, in[9]);
			out[0] = w;
			fwrite(out, sizeof(*out), 2, stdout);
		} else {
			struct libra_num alpha = libra_alpha(&p, &rtt), e = libra_exp(&p, &rtt);

			out[0] = libra_growth(&p, &rtt, w);
			out[1] = libra_ssthresh(&p, &rtt, w);
			out[2] = alpha.m;
			out[3] = (u64)alpha.e;
			out[4] = e.m;
			out[5] = (u64)e.e;
			fwrite(out, sizeof(*out), 6, stdout);
		}
	}
	return 0;
}
