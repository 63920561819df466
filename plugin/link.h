/* SPDX-License-Identifier: GPL-2.0-or-later */
/* link.h - the connection to phalanxd: one thread that connects, sends the
 * whole state and keeps the connection alive, and functions by which
 * slurmctld's threads send events and asks without ever blocking.
 *
 * Locks, in this order: slurmctld's own, then `rx` (who reads the socket),
 * then `io` (state, sending).  `io` is held for one send or append only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "packet.h"
#include "pktbuf.h"

enum link_state {
	LINK_DOWN = 0,    /* no connection */
	LINK_HELLO = 1,   /* HELLO sent, WELCOME awaited */
	LINK_STALE = 2,   /* connected; what the daemon knows is void */
	LINK_SYNCING = 3, /* state on its way, events go to the backlog */
	LINK_READY = 4,   /* events and asks are sent at once */
	LINK_LOST = 5,    /* to be closed by the thread */
};

/* ---- slurmctld's state, reported by the operations; locks held by the caller */

/* Stop all packets: the structures are being rebuilt. Starts the thread the first time. */
extern void link_state_void(void);

/* Send everything, if the structures are whole again; else compare the node table soon. */
extern void link_state_whole(void);

/* End the connection: slurmctld ends, or becomes a standby. */
extern void link_leave(void);

/* Compare the node table soon: a node's configuration changed. */
extern void link_table_hint(void);

/* End the thread, close the connection.  RET false if it did not end */
extern bool link_stop(void);

/* ---- events */

/* RET true if events are wanted now (else do not build them) */
extern bool link_wants_events(void);

/* Send or queue packets; on trouble the state is sent anew later. */
extern void link_events(const struct pktbuf *events);

/* ---- asks */

extern enum link_state link_state(void);
extern struct link_limits link_limits(void);
extern uint32_t link_flags(void);

/* Take the limits of slurm.conf. Another number at phalanx_enable than before closes the breaker,
 * also where the daemon is ejected: nothing that the daemon sends does. */
extern void link_site(const struct site *site);

/* Send one packet at once if READY; sets its seq.
 * RET 0, or an errno value: ENOTCONN if not READY, EAGAIN if the socket is
 *     full, else what broke the connection */
extern int link_send(struct phx_hdr *hdr);

/* Like it, but where the daemon only watches the packet may leave a tick later (link.c). */
extern int link_post(struct phx_hdr *hdr);

/* RET true if the daemon has read all that was sent, or is gone */
extern bool link_idle(void);

/* Become the only reader. RET false if that took until the deadline */
extern bool link_rx_begin(uint64_t deadline_ns);
extern void link_rx_end(void);

/* Receive one packet and handle it unless it is an ANSWER; between link_rx_begin() and
 * link_rx_end().
 * OUT p - valid until the next call
 * RET 0 p is filled; EAGAIN nothing there; EBADMSG malformed; else an errno value (after the last
 *     two the connection is lost) */
extern int link_receive(struct packet *p);

/* Wait until there is something to receive.  RET false at the deadline */
extern bool link_wait_rx(uint64_t deadline_ns);

extern void link_lose(const char *why, int err);

/* Note a good answer: a later reconnect need not wait long. */
extern void link_proved(void);
