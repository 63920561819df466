/* SPDX-License-Identifier: GPL-2.0-or-later */
/* packet.h - checks of every byte the overlay receives.  Pure functions that
 * know nothing of Slurm or sockets; the fuzz target calls them as they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker.h"

/* Bounds of the wait and of the breaker, whatever the daemon asks for. */
#define PHX_DEADLINE_US_MIN 100u
#ifndef PHX_DEADLINE_US_MAX /* the harness, slowed by its checks, needs more */
#define PHX_DEADLINE_US_MAX 20000u
#define PHX_ASK_MS_MAX 6000u /* a tenth of a minute */
#endif
#define PHX_EJECT_WINDOW_S_MIN 3600u
#define PHX_EJECT_WINDOW_S_MAX 604800u
#define PHX_BREAKER_OPEN_MS_MIN 100u

/* Limits of slurm.conf (conf.c), which no daemon exceeds; 0 of those of the breaker: none. */
struct site {
	uint32_t proofs;      /* 0 none, 1 those of plans and TEST_ONLY, 2 all */
	uint32_t enable;      /* another number than before closes the breaker */
	uint32_t uid;         /* of the daemon, besides root and SlurmUser */
	uint32_t hold_max_s;
	uint32_t order_max;   /* greatest delta that is written; 0: none is */
	uint32_t deadline_us;
	uint32_t compare;     /* one in this many is compared, however many agreed */
	uint32_t trade;       /* enum vector_trade */
	uint32_t ask_ms;      /* a minute, between asks and their answers */
	uint32_t refused_pct, syncs, held_s, eject_openings; /* of struct breaker_limits */
};

/* Limits in force. */
struct link_limits {
	uint32_t deadline_us;
	uint32_t flags; /* enum phx_welcome_flags */
	uint32_t uid;   /* of struct site */
	uint32_t hold_s; /* since a job may start: hold_max_s of struct site */
	uint32_t order_max, compare, trade; /* of struct site */
	struct breaker_limits breaker;
};

/* RET the daemon's limits where they are stricter than slurm.conf's, which count else */
extern struct link_limits limits_within(const struct phx_welcome *w, const struct site *site);

/* Result of packet_parse(). */
enum packet_kind {
	PACKET_BAD = 0,     /* close the connection */
	PACKET_LIMITS = 1,  /* WELCOME or CONFIG: .welcome, see limits_within() */
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
extern enum packet_kind packet_parse(const void *data, size_t len, struct packet *p);

/* Properties of the ask against which an answer is checked. */
struct answer_want {
	uint32_t job_id;
	uint32_t min_nodes;
	uint32_t max_nodes;
	uint32_t node_bits;         /* nodes of the table */
	const uint64_t *left_out;   /* as many words, of nodes that a proof may name too; or NULL */
	uint16_t mode;              /* enum phx_mode */
	bool prove;                 /* its result may be proved */
	const uint64_t *candidates; /* (node_bits + 63) / 64 words */
};

/* Consequences that an answer may have, by the table in packet.c. */
enum follow {
	FOLLOW_BREACH = 0, /* nothing: it is refused, and stock decides */
	FOLLOW_STOCK,      /* stock decides alone */
	FOLLOW_TRY,        /* stock tries the nodes; what it refuses is asked in full */
	FOLLOW_PROOF,      /* the same, and its success may stand for all candidates */
	FOLLOW_HOLD,       /* the call may fail, within the bounds of a hold */
	FOLLOW_CANNOT,     /* the same, because too few candidates have room: a proof */
};

/* RET what may follow an answer to an ask of this mode */
extern enum follow answer_follow(uint16_t mode, const struct phx_answer *a);

/* Check an ANSWER that packet_parse() accepted and that has the ask's seq.
 * OUT nodes - the chosen indexes, ascending (room for PHX_ANSWER_NODES_MAX)
 * RET what may follow; TRY and PROOF with nodes[0 .. p->answer.count) */
extern enum follow answer_check(const struct packet *p,
				const struct answer_want *want, uint32_t *nodes);

/* Return the short key of a job name, equal for names that differ in numbers only: FNV-1a 32 over
 * the bytes, each run of digits as one '#', the halves xored. IN name - NULL counts as empty */
extern uint16_t phx_name_key(const char *name);

/* Return the key of an account: FNV-1a 32 over its bytes. IN account - NULL counts as empty */
extern uint32_t phx_account_key(const char *account);
