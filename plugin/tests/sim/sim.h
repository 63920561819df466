/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim.h - slurmctld's side of the campaign sim-link: the overlay as it is,
 * with its threads, clock, socket and files replaced by deterministic ones of
 * virtual time.  The other side is src/service/link/campaign, which decides
 * what happens when.
 *
 * Every thread is a fiber: it runs until it sleeps, waits or takes a lock that
 * is held, so one seed gives one history.  All of the overlay's calls to the
 * system are renamed in its object file (../../Makefile) to the sim_ functions
 * of sim_time.c, sim_io.c and sim_disk.c.
 */
#ifndef PHALANX_SIM_H
#define PHALANX_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_JOBS_MAX 64u
#define SIM_NODES_MAX 16u
#define SIM_FOREVER UINT64_MAX
#define SIM_EPOCH 1700000000ull /* unix seconds at virtual time 0 */

/* What is broken on purpose, so that each check is seen to fail. */
enum sim_sabotage {
	SIM_SOUND = 0,
	SIM_LOSE_EVENT = 1,    /* a JOB_END is lost within a connection */
	SIM_SLOW_ASK = 2,      /* a wait for an answer lasts too long */
	SIM_LONG_HOLD = 3,     /* the hold budget is forgotten at each call */
	SIM_LOSE_LEDGER = 4,   /* the ledger's file is not there after a crash */
	SIM_DEAF_BREAKER = 5,  /* the breaker closes by itself */
	SIM_WRONG_RESULT = 6,  /* a call fails though stock would have taken it */
};

struct sim_params {
	uint64_t seed;
	uint32_t nodes, jobs;   /* most of both */
	uint32_t processors;    /* 1: an ask does not look before it sleeps */
	uint32_t pause_us;      /* between two actions of slurmctld, at most */
	uint32_t socket_bytes;  /* room of the socket */
	uint32_t disk_us;       /* an operation on a file lasts, at most */
	uint32_t disk_fail;     /* of 1000 such operations fail */
	uint32_t inputs;        /* of 100 jobs declare an input */
	uint32_t old;           /* of 100 jobs are about an hour old */
	uint32_t clock_jumps;   /* of 1000 actions the wall clock is set */
	uint32_t sabotage;      /* enum sim_sabotage */
	uint32_t log;
};

/* A running job as slurmctld has it. */
struct sim_job {
	uint32_t job_id;
	uint32_t suspended;
	uint64_t nodes; /* bit mask */
};

struct sim_truth {
	uint32_t node_count, job_count;
	uint64_t memory_mb[SIM_NODES_MAX];
	struct sim_job jobs[SIM_JOBS_MAX];
};

struct sim_counts {
	uint64_t actions, events, asks, answers, narrowed, held, syncs, connects;
	uint64_t opens, ejections, deltas, crashes, restarts, checks, late;
};

/* ---- for the campaign */

extern void sim_begin(const struct sim_params *params);
extern uint64_t sim_now(void);
extern int64_t sim_wall(void); /* unix seconds */
extern uint64_t sim_next(void); /* when somebody wakes, or SIM_FOREVER */
/* Let the next one that wakes until then run until it waits; or nobody, and
 * it is then. */
extern void sim_run(uint64_t until);

extern void sim_listen(bool on);
/* RET number of the newest connection, 0 before the first */
extern uint32_t sim_connection(void);
/* RET bytes of the next packet of the plugin on this connection; 0: none now,
 * -1: none any more */
extern int sim_take(uint32_t connection, void *packet, uint32_t room);
extern void sim_give(uint32_t connection, const void *packet, uint32_t len);
extern void sim_cut(uint32_t connection); /* by the daemon */

/* slurmctld is killed and starts again; IN power - so is the machine */
extern void sim_crash(bool power);
/* Nothing changes any more, nothing fails; else slurm.conf gets another phalanx_enable. */
extern void sim_tell(bool quiet);
extern void sim_truth(struct sim_truth *out);
extern void sim_count(struct sim_counts *out);
extern const char *sim_failure(void); /* the first one, or NULL */
/* RET how often the plugin sent, connected or closed */
extern uint64_t sim_signals(void);
extern bool sim_ready(void);    /* the state was sent, events go at once */
extern bool sim_settled(void);  /* and nothing is under way */
extern void sim_dump(void); /* to the log */
extern bool sim_clean(void);    /* no delta is left, nor the ledger's file */
extern uint32_t sim_breaker(void); /* its state */
/* RET the job ids that wait. OUT ids - of SIM_JOBS_MAX */
extern uint32_t sim_pending(uint32_t *ids);

/* ---- among its files */

extern struct sim_params sim;
extern uint64_t sim_clock;
extern bool sim_is_quiet, sim_enable_wanted;
extern uint64_t sim_signal_count;
extern uint32_t sim_acting; /* actions under way */
extern bool sim_in_list; /* Slurm's own lock of a list is held */
extern bool sim_reborn; /* slurmctld has ended and is to start again */
extern struct sim_counts sim_counts;

extern uint32_t sim_random(uint32_t below); /* 0 .. below - 1 */
extern void sim_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
extern void sim_trace(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* sim_time.c */
extern void sim_sleep(uint64_t ns);
extern bool sim_in_fiber(void);
extern void sim_spawn(void *(*run)(void *));
extern void sim_wait_on(void *what, uint64_t until);
extern void sim_wake_on(void *what);
extern void sim_wake_pollers(void);
extern uint64_t sim_wait_io(uint64_t until); /* until I/O changes or then */
extern void sim_time_reset(void);  /* all threads are gone */
extern int64_t sim_wall_offset;
extern void sim_heap_reset(void);

/* sim_io.c */
extern void sim_io_reset(void);    /* all descriptors are closed */
extern void sim_io_begin(void);
extern bool sim_io_idle(void);     /* all that was sent was taken */

/* sim_disk.c */
extern void sim_disk_begin(void);
extern void sim_disk_reset(bool power);
extern void sim_disk_touch(const char *name); /* replaced by a new one */
extern bool sim_disk_has(const char *name);
extern void sim_disk_drop(const char *name);
extern bool sim_disk_owns(int fd);
extern int sim_disk_close(int fd);

/* sim_ctld.c */
extern void sim_ctld_begin(void);
extern void sim_ctld_boot(void);

/* sim_check.c */
extern void sim_check_begin(void);
extern void sim_check_boot(void);
extern void sim_check_slice(void);
extern void sim_check_sent(const void *packet);
extern void sim_check_read(const void *packet, uint32_t len);
extern void sim_check_call(bool begin);
extern void sim_check_held(uint32_t user, int64_t age);
extern void sim_check_enabled(void);

#endif
