/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * layout.h - whether slurmctld was compiled with the structures that this
 * overlay was compiled with.  A version alone does not tell: a Slurm that was
 * patched or configured otherwise may have others.
 */
#pragma once

#include "slurm_api.h"

/*
 * Magic numbers, sizes and indexes of all nodes, of the first job, and of a
 * new job record where slurmctld lets make one.
 * RET NULL, or what is wrong; locks: READ job, node
 */
extern const char *layout_check(void);

/*
 * Must be true before any field of a job record is read.  The first record
 * that is another is logged, and makes the overlay inert for good.
 */
extern bool layout_has_job(job_record_t *job_ptr);

/* RET what layout_has_job() found wrong, NULL as long as all was well */
extern const char *layout_wrong(void);
