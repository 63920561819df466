/* SPDX-License-Identifier: GPL-2.0-or-later */
/* daemon.h - a scripted phalanxd in a thread of the harness. */
#ifndef PHALANX_TEST_DAEMON_H
#define PHALANX_TEST_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "phalanx_wire.h"

/* What it does with an ASK. */
enum reply {
	REPLY_NODES,      /* the nodes of daemon_nodes() */
	REPLY_NO_OPINION,
	REPLY_HELD,
	REPLY_SILENT,
	REPLY_LATE,       /* as NODES, after late_ms */
	REPLY_OTHER_JOB,
	REPLY_OLD_SEQ,    /* only an answer to an earlier packet */
	REPLY_FUTURE_SEQ,
	REPLY_GARBAGE,
	REPLY_VERSION,
	REPLY_TRUNCATED,
	REPLY_TOO_LONG,   /* more than a packet may have */
	REPLY_FLOOD,      /* old answers without end */
	REPLY_CLOSE,
	REPLY_RESYNC_FIRST, /* RESYNC, then as NODES */
};

extern void daemon_start(const char *path);
extern void daemon_stop(void);

extern void daemon_reply(enum reply reply);
extern void daemon_nodes(const uint32_t *nodes, uint32_t count);
/* Answers carry this proof; of kind PHX_P_NONE: none. */
extern void daemon_proof(uint32_t proof, uint64_t not_before, uint64_t until);
extern void daemon_limits(uint32_t deadline_us, uint32_t misses,
			  uint32_t open_ms, uint32_t flags);
/* The other limits of the breaker; 0 each at first: none. */
extern void daemon_watch(uint32_t refused_pct, uint32_t syncs, uint32_t held_s,
			 uint32_t eject_openings);
extern void daemon_enable(void);      /* CONFIG with PHX_W_ENABLE */
extern void daemon_late_ms(uint32_t ms);
extern void daemon_pause(bool pause); /* do not read */
extern void daemon_welcome(bool welcome);
extern void daemon_drop(void);        /* close the connection */
extern void daemon_send_resync(void);
extern void daemon_send_config(void);

/* One ORDER message: `flags` are enum phx_part. */
extern void daemon_send_order(uint64_t generation, uint32_t flags,
			      uint32_t lease_ms, const struct phx_delta *deltas,
			      uint32_t count);

/* Packets received so far of one type, over all connections. */
extern int daemon_count(uint16_t type);

/* Wait for the `nth` packet (from 1) of a type, 5 s at most.
 * RET it, kept for good */
extern const void *daemon_wait(uint16_t type, int nth);

/* RET the order number of that packet among all received */
extern int daemon_order(uint16_t type, int nth);

#endif
