/* SPDX-License-Identifier: GPL-2.0-or-later */
/* harness.h - what the harness's test files share. */
#ifndef PHALANX_TEST_HARNESS_H
#define PHALANX_TEST_HARNESS_H

#include "ctld.h"

#include <unistd.h>

#include "check.h"
#include "daemon.h"
#include "nth.h"

#define DEADLINE_US 200000 /* long, so that a busy machine fails no test */
#define PATIENT 1000 /* misses: more than any machine gets to */

/* Limits of slurm.conf: none, so that the tests set them by the daemon. */
#define NO_LIMITS "phalanx_refused_pct=0,phalanx_syncs=0,phalanx_held_s=0,phalanx_eject=0," \
	"phalanx_order=1000000000"

#define TEST(name) fprintf(stderr, "  %s\n", name)

extern char harness_root[64]; /* directory of this run */
extern char sock_path[128];
extern struct overlay o;      /* the one under test */
extern job_record_t *job;     /* pending, the one that is placed */

/* A PluginDir of its own: ROOT/NAME/ours and, if `stock`, ROOT/NAME/stock.
 * RET the overlay's path there */
extern const char *layout(const char *name, const char *stock);

/* Everything was sent, and a moment has passed for the overlay to note it. */
extern void wait_synced(int nth);

/* slurm.conf is read anew by slurmctld, with these and the limits of NO_LIMITS. */
extern void reconfigured(const char *params);

/* Which decisions are compared with stock's; none at first. */
extern void compare(enum nth_draws which);

/* The same with another number at phalanx_enable: closes the breaker. */
extern void enable(void);

/* What stock's job_test() saw since the last call(). */
struct seen {
	int calls;
	uint32_t bits[4]; /* nodes of the bitmap in each call */
	uint32_t req[4];
	void *candidates[4], *preemptees[4], *exc[4];
	uint64_t flags[4];
};
extern struct seen seen;

/* Stock's job_test(): takes the first `min` nodes, as stock might. */
extern int stock_takes(void *job, void *bitmap, uint32_t min, uint32_t max,
		       uint32_t req, uint16_t mode, void *candidates,
		       void *preemptees, void *exc);

/* One job_test() on all nodes but the empty slot; RET its code */
extern int call(uint32_t min, uint32_t max, uint32_t req, uint16_t mode);

/* The same with more arguments. */
extern int call_with(uint16_t mode, list_t *candidates, struct call_tail *tail);

/* The same with these other arguments. */
extern int call_tailed(uint32_t min, uint32_t max, uint32_t req, uint16_t mode,
		       struct call_tail *tail);
/* The counters as a report says them that was sent after now. */
extern const struct phx_stats *fresh_stats(void);

/* call() for a start; RET its duration in us */
extern uint64_t timed_call(void);
extern bitstr_t *bm; /* node_bitmap of the last call */

/* Stock was called so often, at last with all nodes. */
extern void expect_full(int calls);

/* The OUTCOME of the last ask. */
extern const struct phx_outcome *outcome(void);

extern void test_calls(void);  /* test_calls.c */
extern void test_spent(void);  /* test_budget.c */
extern void test_hold(void);   /* test_holds.c */
extern void test_hold_bounds(void);  /* test_holds.c */
extern void test_proofs(void); /* test_proofs.c */
extern void test_witness(void); /* test_witness.c */
extern void test_watch(void);  /* test_watch.c */
extern void test_asks(void);   /* test_asks.c */
extern void test_layout(void); /* test_asks.c */
extern void test_events(void); /* test_link.c */
extern void test_loss(void);   /* test_link.c */
extern void test_order(void);  /* test_order.c */
extern void test_order_end(void); /* the same, after fini() */
extern void test_failures(int every); /* test_failures.c */
extern void test_count(bool will_run, int nodes); /* test_count.c */

#endif
