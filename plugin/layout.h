/* SPDX-License-Identifier: GPL-2.0-or-later */
/* layout.h - whether slurmctld was compiled with the structures of this overlay. The version is not
 * enough: a Slurm that was patched or configured otherwise may have others. */
#pragma once

#include "slurm_api.h"

/* Check magic numbers, sizes and indexes of all nodes, of the first job, and of a new job record
 * where slurmctld can make one.
 * RET NULL, or the fault; locks: READ job, node */
extern const char *layout_check(void);

/* Whether a job record has this overlay's layout; must be true before any of its fields is read.
 * The first record with another one is logged, and makes the overlay inert for good. */
extern bool layout_has_job(job_record_t *job_ptr);

/* RET the fault that layout_has_job() found, or NULL */
extern const char *layout_wrong(void);
