/* SPDX-License-Identifier: GPL-2.0-or-later */
/* link_io.h - what link.c's thread and link_io.c share; see link.h. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "link.h"

struct link_io {
	pthread_mutex_t rx_lock; /* held by the reader of the socket */
	pthread_mutex_t lock;    /* the state and all below */
	int sock;                /* closed under both locks, by the thread; or -1 */
	int wake_fd;             /* eventfd that wakes the thread; or -1 */
	uint64_t last_seq;       /* of the packets of this connection, sent or posted */
	const char *lost_why;    /* reason of LOST */
	int lost_err;            /* errno value of LOST, or 0 */
	struct pktbuf backlog;   /* events while SYNCING */
	struct pktbuf posted;    /* numbered packets that nobody waits for, still to be sent */
	_Atomic bool proved;     /* a valid answer came */
};

extern struct link_io io;

/* Set the state; `_locked`: io.lock is held. */
extern void io_set_state(enum link_state state);
extern void io_lose_locked(const char *why, int err);

/* Go back from READY or SYNCING to the state in which everything has to be sent. */
extern void io_stale_locked(void);

/* Send one packet, after those posted; its number is used only if it left.
 * RET 0, EAGAIN (no room), or errno value */
extern int io_send_locked(struct phx_hdr *hdr);

/* Send what was posted; what had no room is kept. */
extern void io_flush(void);

extern void io_count_event(const struct phx_hdr *hdr);

/* Read packets that no ask waits for; an ANSWER among them is late. */
extern void io_drain(void);

extern void io_wake(void);
