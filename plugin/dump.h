/* SPDX-License-Identifier: GPL-2.0-or-later */
/* dump.h - file for administrators when the breaker has opened: the counters, and the last asks
 * with their answers and times. Kept in memory, written by the overlay's thread, which holds no
 * lock then. */
#pragma once

#include "phalanx_wire.h"

#define DUMP_FILE "phalanx_breaker"

/* Remember the outcome of an ask. */
extern void dump_note(const struct phx_outcome *out);

/* Write the file anew.
 * IN head - a line of why
 * OUT path - of the file; room for PATH_MAX
 * RET 0 or an errno value */
extern int dump_write(const char *head, char *path);
