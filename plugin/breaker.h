/* SPDX-License-Identifier: GPL-2.0-or-later */
/* breaker.h - circuit breaker of the ask, and the watchdog over what the daemon costs. Knows
 * nothing of Slurm or sockets; the caller passes the time, so that tests need no clock.
 *
 * Closed: asks are made. The breaker opens at a limit (enum phx_breach) of the time waited in
 * vain, the share of answers that stock refused, the whole states sent, or the users whose jobs
 * were held in one partition for too long. Each is a leaky bucket: the amount drains evenly over
 * its period, and fully when the breaker opens. BREAKER_SILENT consecutive asks without an
 * answer in time open it as well. Open: no ask is made until its time has passed; then it is
 * half open and exactly one ask is made: a hit closes it, a miss opens it for as long again.
 * Each crossing opens it for twice as long as the one before, until it has been closed for
 * BREAKER_QUIET_NS. Ejected: after eject_openings crossings within a window, or at once where a
 * proof was wrong, it stays open until breaker_enable().
 *
 * All time that the daemon costs slurmctld has one budget, ask_ms in any minute: a quarter at once
 * and the rest as the minute passes. While it is spent no ask is made, which is no fault. What
 * answers save is an estimate: an ask costs a part of its time however much it saved. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "phalanx_wire.h"

#define BREAKER_QUIET_NS 600000000000ull /* closed for so long: the next opening is a first */
#define BREAKER_OPEN_MS_MAX 600000u      /* longest opening */
#define BREAKER_CROSSINGS_MAX 16u        /* greatest eject_openings */
#define BREAKER_SILENT 50u               /* consecutive misses that open the breaker */
#define BREAKER_SAVED_COSTS 8u           /* inverse share that is always paid */
#define BREAKER_TRIED_MIN 50u            /* answers before a share counts */
#define BREAKER_REFUSED 1024u            /* jobs whose refusal is remembered */
#define BREAKER_REFUSERS 256u            /* users, and partitions, that are told apart */
#define BREAKER_REFUSED_MANY 4u          /* fewest users and partitions to open */
#define BREAKER_SYNC_NEAR_NS 10000000000ull /* syncs nearer than this have to wait */
#define BREAKER_SYNC_PAUSE_MAX_NS 4000000000ull
#define BREAKER_SYNCS_MAX 1000u         /* greatest number of whole states in a minute */
#define BREAKER_HOLDERS 256u             /* users in partitions remembered */
#define BREAKER_HELD_USERS 4u           /* users with ended holds that open the breaker */
#define BREAKER_HOLD_GAP_NS 120000000000ull /* longer gaps end a hold */

/* State of the breaker; the numbers are those of phx_stats.breaker_open. */
enum breaker_state {
	BREAKER_CLOSED = 0,
	BREAKER_OPEN = 1,
	BREAKER_HALF_OPEN = 2,
	BREAKER_EJECTED = 3,
};

/* Limits; 0 means no limit, except for those of time, where it is 1. */
struct breaker_limits {
	uint32_t deadline_us;  /* longest wait for an answer */
	uint32_t ask_ms;       /* waited in a minute, answered or not */
	uint32_t late_ms;      /* waited in vain in a minute */
	uint32_t open_ms;      /* first opening */
	uint32_t refused_pct;  /* of the answers tried; 100: no limit either */
	uint32_t syncs;        /* whole states in a minute */
	uint32_t held_s;       /* hold of a user in a partition in an hour */
	uint32_t eject_openings;
	uint32_t eject_window_s;
};

/* Amount spent, in the unit of its limit, at a time. */
struct bucket {
	double level;
	uint64_t at_ns;
};

/* Whether the holds of a user in a partition are ended. */
enum holder_over {
	HOLDER_UNDER = 0,
	HOLDER_NEW = 1,
	HOLDER_COUNTED = 2, /* among the users who open the breaker */
};

struct holder {
	uint64_t key;     /* 0: free; its low half is the user */
	enum holder_over over;
	uint64_t last_ns; /* time of the last hold */
	struct bucket held; /* hold in ns */
};

struct breaker {
	_Atomic uint32_t state;    /* enum breaker_state */
	_Atomic uint64_t until_ns; /* monotonic time at which open ends */
	_Atomic uint64_t opens;    /* number of openings */
	_Atomic uint64_t spent_ns; /* monotonic time at which asks have a budget again */

	pthread_mutex_t lock; /* protects all members below */
	uint64_t breaches[PHX_BREACHES]; /* crossings by cause */
	uint64_t ejections;
	uint32_t silent;    /* misses since the last answer in time */
	uint64_t late_ns;   /* time waited in vain, in all */
	uint64_t held_ns;   /* hold of jobs of one user in one partition, in all */
	uint32_t breach;    /* enum phx_breach of the last crossing */
	uint32_t open_ms;   /* length of the last opening; 0: none, or long ago */
	uint64_t closed_ns; /* begin of the closed state */
	uint64_t crossed_ns[BREAKER_CROSSINGS_MAX];
	uint64_t crossings;
	struct bucket asked, late;
	double tried, refused; /* answers; halved each minute */
	uint64_t tried_ns;
	uint32_t refused_jobs[BREAKER_REFUSED]; /* job ids, by their remainder */
	uint8_t refusals[2 * BREAKER_REFUSERS]; /* that count: of users, of partitions */
	uint64_t sync_ns;   /* time of the last sync; 0: none */
	uint32_t syncs_near;
	uint64_t synced_ns[BREAKER_SYNCS_MAX]; /* times of the last ones, by their number */
	uint64_t synced, synced_crossed; /* number of them, and at the last crossing */
	uint64_t syncs_from_ns; /* time at which a minute has room for one more */
	struct holder holders[BREAKER_HOLDERS];
};

/* RET true if an ask may be made now; the caller must then report its result
 * with exactly one of breaker_asked() and breaker_cancel(). */
extern bool breaker_allows(struct breaker *b, uint64_t now_ns);

/* RET true if the time for asks is spent for now */
extern bool breaker_spent(const struct breaker *b, uint64_t now_ns);

/* Report an ask. IN waited_ns - its duration; answered - whether a valid answer came in time */
extern void breaker_asked(struct breaker *b, uint64_t now_ns, uint64_t waited_ns,
			  bool answered, const struct breaker_limits *limits);

/* Take time that slurmctld spent for the daemon out of the budget, less what an answer saved stock:
 * asks, trials that stock refused or that were compared, looks at the order of starts. One more ask
 * of the longest must have room at once; what it lacks comes with the time. */
extern void breaker_pay(struct breaker *b, uint64_t now_ns, uint64_t waited_ns,
			uint64_t saved_ns, const struct breaker_limits *limits);

/* RET whether half of what may be spent at once is left: the order of starts, which may wait,
 *     leaves that to asks */
extern bool breaker_spares(struct breaker *b, uint64_t now_ns,
			   const struct breaker_limits *limits);

/* Report that the ask was not made after all; decides nothing. */
extern void breaker_cancel(struct breaker *b);

/* User and partition as one key that is never 0; both are any numbers of the caller's own. */
#define BREAKER_WHO(user, partition) \
	(1ull << 63 | (uint64_t) (partition) << 32 | (user))

/* Report that stock was tried on the nodes of an answer. A job that is refused repeatedly, as each
 * pass of backfill tries it, counts once. Of one user's refusals, and of one partition's, so few
 * count that only BREAKER_REFUSED_MANY of both open the breaker: what the daemon cannot know of
 * them must not end placement for all.
 * IN who - BREAKER_WHO(), or 0: an answer that no honest daemon gives
 * IN kept - stock's result was kept */
extern void breaker_tried(struct breaker *b, uint64_t now_ns, uint32_t job_id,
			  uint64_t who, bool kept,
			  const struct breaker_limits *limits);

/* Ask whether a job may be held. If its user's jobs were held in this partition for longer than
 * held_s of an hour, stock decides there for this user alone until half of that has drained: one
 * user must not end placement for all. Where this happens to BREAKER_HELD_USERS users at a time,
 * the daemon does not keep to its own budget, and the breaker opens.
 * IN user, partition - of the job; any number of the caller's own
 * IN counts - the user is one of those who open the breaker
 * OUT ended - true once, when holds end
 * RET false if stock decides */
extern bool breaker_hold(struct breaker *b, uint64_t now_ns, uint32_t user,
			 uint32_t partition, bool counts,
			 const struct breaker_limits *limits, bool *ended);

/* RET the time until which no whole state may be sent; 0: it may now; UINT64_MAX: not before
 *     breaker_enable()
 * IN caused - by the daemon or its connection, not by a change in slurmctld (sent at once) */
extern uint64_t breaker_sync_at(struct breaker *b, uint64_t now_ns, bool caused);

/* Report a whole state that is sent. */
extern void breaker_sync(struct breaker *b, uint64_t now_ns, bool caused,
			 const struct breaker_limits *limits);

/* Report a proof that stock refuted: the daemon is ejected at once. */
extern void breaker_refuted(struct breaker *b, uint64_t now_ns,
			    const struct breaker_limits *limits);

/* Reset everything except for the counters. */
extern void breaker_enable(struct breaker *b, uint64_t now_ns);

extern bool breaker_is_ejected(struct breaker *b);

/* RET a word for the log */
extern const char *breaker_word(uint32_t breach);
