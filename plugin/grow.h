/* SPDX-License-Identifier: GPL-2.0-or-later */
/* grow.h - arrays that grow.  Plain malloc: Slurm's xmalloc ends the process
 * when memory runs out, the overlay must not. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

/* Make room for `need` elements of `size` bytes, twice as many as before.
 * IN/OUT array, cap - the array and the elements that it has room for
 * RET false if memory ran out: then all is as it was */
static inline bool grow(void **array, size_t *cap, size_t need, size_t size)
{
	size_t new_cap = *cap ? *cap : 64;
	void *p;

	if (need <= *cap)
		return true;
	while (new_cap < need)
		new_cap *= 2;
	p = realloc(*array, new_cap * size);
	if (!p)
		return false;
	*array = p;
	*cap = new_cap;
	return true;
}
