/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ends.h - when each running job ends, as the daemon knows it. Its proofs need these times, and
 * slurmctld changes them (a limit, a resume) without a call of its select plugin, so they are
 * compared before an ask. */
#pragma once

#include "slurm_api.h"

#include <stdbool.h>
#include <stdint.h>

/* Begin a full state: no end was sent. */
extern void ends_clear(void);

/* Time from which stock's future test takes a running job for ended; locks: READ job. */
extern uint64_t ends_of(const job_record_t *job_ptr);

/* Note that a JOB message has the job's end. */
extern void ends_told(const job_record_t *job_ptr);

extern void ends_drop(uint32_t job_id);

/* RET whether at least `count` of the candidates are empty from `at` on at the latest, by the ends
 * that ends_tell() told; locks: READ job. IN like - only these nodes count; or NULL */
extern bool ends_free(bitstr_t *candidates, bitstr_t *like, time_t at, int count);

/* Send the ends that changed; locks: READ job. IN turn - of the test
 * RET true if the daemon knows the present ends */
extern bool ends_tell(uint64_t turn);
