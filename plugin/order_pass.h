/* SPDX-License-Identifier: GPL-2.0-or-later */
/* order_pass.h - what order.c's thread and order_pass.c share: a look at the jobs, and the writes
 * that follow from it. See order.h for the locks. */
#pragma once

#include <limits.h>
#include <pthread.h>

#include "inbox.h"
#include "ledger.h"
#include "order.h"
#include "stats.h"

/* Functions of slurmctld, looked up so that a missing one stops the order of starts only. */
struct order_api {
	__typeof__(set_job_prio) *set_job_prio;
	__typeof__(find_job_record) *find_job_record;
	void (*schedule_job_save)(void);
	__typeof__(assoc_mgr_lock) *assoc_mgr_lock;
	__typeof__(assoc_mgr_unlock) *assoc_mgr_unlock;
};

struct order {
	_Atomic bool whole;       /* slurmctld's structures are; read under its
	                           * locks */
	pthread_mutex_t lock;
	struct ledger ledger;     /* lock */
	uint32_t saves;           /* lock: times that the jobs were saved */
	_Atomic uint32_t entries; /* ledger.count, to look at without the lock */
	bool broken;              /* thread: the ledger's file fails */
	bool dirty;               /* lock: the file is to be written */
	char path[PATH_MAX];      /* lock: of the ledger */
	struct phx_queue counts;  /* changed by stat_add(), but for the rest */
	uint32_t scans;           /* thread: whole walks over all jobs */
};

extern struct order order;
extern struct order_api order_api;

/* Pending jobs at the last look that asked for them. */
struct order_queue {
	struct phx_queued *jobs;
	uint32_t count;
	size_t cap;
	time_t taken;
	time_t update; /* last_job_update, then */
};

/* RET true while slurmctld has read its state, runs its threads (which end before its priority
 *     plugin is unloaded and start after it is loaded) and does not shut down */
extern bool pass_may(void);

/* RET number of priorities of the job beside its own, see JOB_PRIO_MULT
 * OUT priorities - the array; NULL if 0; locks: READ job */
extern int pass_priorities(const job_record_t *job_ptr, uint32_t **priorities);

/* RET the job; NULL if there is none, or its record is not what is expected; locks: READ job */
extern job_record_t *pass_find_job(uint32_t job_id);

/* Look up slurmctld's functions. RET false if one is missing */
extern bool pass_symbols(void);

/* Call look(arg) under slurmctld's READ locks and `order`, and count how long they were held. RET
 * that time in ns */
extern uint64_t pass_read(void (*look)(void *), void *arg);

/* Compare the jobs of the ledger with those that are wanted, and note the changes.
 * IN want - deltas to be in force
 * OUT state - whether deltas can be written at all; if not, none is wanted
 * RET ns for which slurmctld's READ locks were held */
extern uint64_t pass_look(const struct inbox_set *want, enum phx_order_state *state);

/* Continue a walk over all jobs, or begin one if something may have changed since the last: tasks
 * that were split off a record with a delta enter the ledger.
 * IN/OUT queue - if `fill`, replaced at the end of a walk
 * RET ns for which slurmctld's READ locks were held */
extern uint64_t scan_some(struct order_queue *queue, bool fill);

/* RET true between begin and end of a walk */
extern bool scan_under_way(void);

/* Adopt a task that was split off a record with a delta, which it has until it enters the ledger;
 * locks: READ job; order.
 * RET the entry, valid until the next one is added; NULL if the task has none */
extern struct ledger_entry *scan_adopt(job_record_t *job_ptr);

/* Call scan_adopt() for all jobs; locks: WRITE job; order. */
extern void scan_adopt_all(void);

/* Forget the walk, after the thread has ended. */
extern void scan_stop(void);

/* Write the changes of the last look, the ledger's file first. Takes slurmctld's WRITE lock for
 * batches. RET true if more is left for the next turn */
extern bool pass_write(void);

/* Write the ledger's file if it has changed. */
extern void pass_store(void);

/* Forget the ledger and the changes of the last look; lock: order. */
extern void pass_forget(void);

/* Restore all jobs of the ledger; locks: WRITE job, READ node, part. */
extern void pass_restore_all(void);
