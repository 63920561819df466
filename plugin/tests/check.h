/* SPDX-License-Identifier: GPL-2.0-or-later */
/* check.h - assertions of the tests: a failure names its place and ends. */
#ifndef PHALANX_CHECK_H
#define PHALANX_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, \
				__LINE__, #what); \
			exit(1); \
		} \
	} while (0)

#define CHECK_EQ(a, b) \
	do { \
		long long a_ = (long long) (a), b_ = (long long) (b); \
		if (a_ != b_) { \
			fprintf(stderr, "%s:%d: %s is %lld, expected %s %lld\n", \
				__FILE__, __LINE__, #a, a_, #b, b_); \
			exit(1); \
		} \
	} while (0)

#endif
