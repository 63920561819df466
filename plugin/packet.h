/* SPDX-License-Identifier: GPL-2.0-or-later */
/* packet.h - checks of every byte the overlay receives.  Pure functions that
 * know nothing of Slurm or sockets; the fuzz target calls them as they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "phalanx_wire.h"

/* Bounds of the wait and of the breaker, whatever the daemon asks for. */
#define PHX_DEADLINE_US_MIN 100u
#ifndef PHX_DEADLINE_US_MAX /* the harness, slowed by its checks, needs more */
#define PHX_DEADLINE_US_MAX 20000u
#endif
#define PHX_LATE_MS_MAX 6000u /* a tenth of a minute */
#define PHX_EJECT_WINDOW_S_MAX 604800u
#define PHX_BREAKER_OPEN_MS_MIN 100u
#define PHX_BREAKER_OPEN_MS_MAX 600000u

/* Result of packet_parse(). */
enum packet_kind {
	PACKET_BAD = 0,     /* close the connection */
	PACKET_LIMITS = 1,  /* WELCOME or CONFIG: .welcome, already clamped */
	PACKET_ANSWER = 2,  /* .answer and .nodes */
	PACKET_RESYNC = 3,
	PACKET_ORDER = 4,   /* .order, its lease clamped, and .deltas */
};

struct packet {
	enum packet_kind kind;
	uint16_t type;   /* enum phx_type, 0 if BAD */
	const char *why; /* for BAD: what was expected */
	struct phx_welcome welcome;
	struct phx_answer answer;
	const uint8_t *nodes; /* answer.count uint32_t, maybe not aligned */
	struct phx_order order;
	const uint8_t *deltas; /* order.count phx_delta, maybe not aligned */
};

/* Check one packet and split it.
 * IN data, len - the bytes of one packet
 * OUT p - filled; p->nodes points into data
 * RET p->kind */
extern enum packet_kind packet_parse(const void *data, size_t len,
				     struct packet *p);

/* Properties of the ask against which an answer is checked. */
struct answer_want {
	uint32_t job_id;
	uint32_t min_nodes;
	uint32_t max_nodes;
	uint32_t node_bits;         /* nodes of the table */
	const uint64_t *left_out;   /* as many words, of nodes that a proof may name too; or NULL */
	uint32_t proof;             /* enum phx_proof that is allowed */
	const uint64_t *candidates; /* (node_bits + 63) / 64 words */
};

/* Check an ANSWER that packet_parse() accepted and that has the ask's seq.
 * OUT nodes - the chosen indexes, ascending (room for PHX_ANSWER_NODES_MAX)
 * RET PHX_R_NONE: nodes[0 .. p->answer.count) may be tried; PHX_R_INVALID: refused; else the
 *     daemon's reason for no opinion */
extern uint16_t answer_check(const struct packet *p,
			     const struct answer_want *want, uint32_t *nodes);

/* Return the short key of a job name, equal for names that differ in numbers only: FNV-1a 32 over
 * the bytes, each run of digits as one '#', the halves xored. IN name - NULL counts as empty */
extern uint16_t phx_name_key(const char *name);

/* Return the key of an account: FNV-1a 32 over its bytes. IN account - NULL counts as empty */
extern uint32_t phx_account_key(const char *account);
