/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nth.h - one call of the overlay's own to the C library fails: memory, files,
 * socket.  Slurm's xmalloc ends the process when memory runs out, also in
 * libslurm's functions that the overlay calls: those are not counted.
 */
#ifndef PHALANX_TEST_NTH_H
#define PHALANX_TEST_NTH_H

#include <stdbool.h>

enum nth_draws { DRAWS_NONE = 0, DRAWS_ALL = 1, DRAWS_REAL = 2 };

#pragma GCC visibility push(default) /* the harness calls these */

/* Let the nth call from now on fail with this errno; 0: none. */
extern void nth_fail(int n, int error);

/* RET whether one has failed since nth_fail() */
extern bool nth_failed(void);

/* RET the name of the function that failed last */
extern const char *nth_what(void);

/* Each call of this function for a file waits until there is another one; NULL: none does. */
extern void nth_stall(const char *name);

/* RET how many calls wait */
extern int nth_stalled(void);

/* Which decisions are compared with stock's. */
extern void nth_compare(enum nth_draws which);

#pragma GCC visibility pop

#endif
