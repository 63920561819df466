/* SPDX-License-Identifier: GPL-2.0-or-later */
/* turn.h - how long what was read of slurmctld's tables stays true: while one thread goes on
 * testing jobs under one hold of slurmctld's locks, and no job begins or ends. */
#pragma once

#include <stdint.h>

/* Begin a test of a job. RET the number of the turn, never 0; another one than that of the last
 * test if anything may have changed since */
extern uint64_t turn_begin(void);

/* End the test that began last. */
extern void turn_end(void);

/* Say that a job, and with it nodes, changed, or may change before the next test. */
extern void turn_over(void);
