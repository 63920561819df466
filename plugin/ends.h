/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ends.h - when each running job ends, as the daemon was told.  Its proofs
 * stand on these times, and slurmctld changes them (a limit, a resume) without
 * telling its select plugin, so they are compared before an ask.
 */
#pragma once

#include "slurm_api.h"

#include <stdbool.h>
#include <stdint.h>

/* A full state begins: nothing was told. */
extern void ends_clear(void);

/* When stock's future test takes a running job for ended; locks: READ job. */
extern uint64_t ends_of(const job_record_t *job_ptr);

/* A JOB message says when the job ends. */
extern void ends_told(const job_record_t *job_ptr);

/* The job ended. */
extern void ends_drop(uint32_t job_id);

/*
 * Tell what changed since; locks: READ job.
 * RET true if the daemon knows the ends as they are now
 */
extern bool ends_tell(void);
