/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sabotage.c - an overlay that is wrong on purpose, by which the search with
 * memcheck is seen to find something: the linker puts this before link_flags(),
 * which each job_test() calls.  It reads what it has freed and loses memory.
 */
#include <stdint.h>
#include <stdlib.h>

#define BYTES 48

extern uint32_t __real_link_flags(void);
extern uint32_t __wrap_link_flags(void);

static void *volatile last;

extern uint32_t __wrap_link_flags(void)
{
	volatile char *gone = malloc(BYTES);
	char seen = 0;

	last = malloc(BYTES); /* the one before is lost */
	free((void *) gone);
	seen = gone[1]; /* the compiler warns of this, rightly */
	return __real_link_flags() | (seen & 0);
}
