/* SPDX-License-Identifier: GPL-2.0-or-later */
/* inbox.h - the deltas that the daemon wants, from whichever thread received
 * them to the order thread.  Knows nothing of Slurm. */
#pragma once

#include "packet.h"

struct inbox_set {
	uint64_t generation; /* 0: none came yet */
	uint32_t count;
	struct phx_delta deltas[PHX_ORDER_JOBS_MAX]; /* by ascending job id */
};

/* Take an ORDER that packet_parse() accepted. RET false if it does not continue the last one */
extern bool inbox_take(const struct packet *p, uint64_t now_ns);

/* Forget the deltas: the connection or the structures are gone. */
extern void inbox_forget(void);

/* Copy the deltas wanted now: none if the lease has ended. */
extern void inbox_get(struct inbox_set *out, uint64_t now_ns);

/* Wait until a packet came or inbox_wake() was called, `ms` at most. */
extern void inbox_wait(uint32_t ms);
extern void inbox_wake(void);
