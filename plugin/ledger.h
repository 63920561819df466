/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ledger.h - which jobs have a site_factor of the overlay's, and what others want it
 * to be. Slurm saves it with the job, so the ledger has a file beside Slurm's own state: written
 * before a value is, it names every value of the overlay's that a saved job may come back with.
 * Knows nothing of Slurm. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_MAX 16384u /* entries, those that only wait included */
#define LEDGER_VALUES 7u
/* Saves after which every saved state has a change: the first save seen may have ended before it,
 * the second have begun before it. */
#define LEDGER_SAVES 3u

enum ledger_state {
	LEDGER_ON = 1,     /* the job has `written` */
	LEDGER_OFF = 2,    /* restored; a saved state may still have a value */
	LEDGER_LOADED = 3, /* from the file: the job has not been looked at */
};

/* In the id of an entry of a job's TimeMin, which earlier versions wrote; Slurm's are smaller. */
#define LEDGER_TIME_MIN 0x80000000u

struct ledger_entry {
	uint32_t job_id;
	uint32_t array_job_id; /* 0 if not of an array */
	uint32_t base;         /* the field as others set it */
	uint32_t written;      /* the value that the overlay wrote */
	uint32_t state;        /* enum ledger_state */
	uint32_t saves;        /* the count of saves at the last change */
	uint32_t recalc;       /* restored, the priority not yet recomputed */
	uint32_t spare;
	uint32_t count;        /* values in use */
	uint32_t values[LEDGER_VALUES]; /* the overlay's, maybe in a saved state */
};

struct ledger {
	struct ledger_entry *entries; /* by ascending id */
	uint32_t count;
	uint32_t dropped; /* of the file: of a job's TimeMin */
	size_t cap;
};

/* RET the job's entry, or NULL */
extern struct ledger_entry *ledger_find(const struct ledger *l, uint32_t job_id);

/* Add an entry without values, in state OFF.
 * RET the entry, valid until the next call; NULL if full or memory ran out */
extern struct ledger_entry *ledger_add(struct ledger *l, uint32_t job_id);

/* Note a value that is about to be written. RET false if the entry has no room until the jobs have
 * been saved */
extern bool ledger_note(struct ledger_entry *e, uint32_t value);

/* RET true if the overlay wrote that value and others did not want it */
extern bool ledger_is_ours(const struct ledger_entry *e, uint32_t value);

/* Forget what no saved state can hold after `saves` saves. RET true if there was something */
extern bool ledger_prune(struct ledger *l, uint32_t saves);

/* RET entries of that state */
extern uint32_t ledger_count(const struct ledger *l, enum ledger_state state);

/* Copy all entries. RET false if memory ran out */
extern bool ledger_copy(struct ledger *to, const struct ledger *from);

extern void ledger_free(struct ledger *l);

/* Replace the file in one step, synced to disk; without entries, remove it.
 * RET 0 or an errno value */
extern int ledger_store(const struct ledger *l, const char *path);

/* Read the file; every entry becomes LOADED. Refused: a file that is not regular, of a user other
 * than root and slurmctld's own, writable by others, or damaged.
 * OUT why - reason of EINVAL and EPERM
 * RET 0, ENOENT without a file, or another errno value; then `l` is empty */
extern int ledger_load(struct ledger *l, const char *path, const char **why);
