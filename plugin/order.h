/* SPDX-License-Identifier: GPL-2.0-or-later */
/* order.h - the order of starts: a thread that adds the daemon's deltas to the site_factor of
 * pending jobs and takes them away again.
 *
 * The field belongs to the administrator: what others set stays the base to which a delta is added,
 * also when they change it meanwhile. Held jobs, jobs whose priority was set by hand and jobs that
 * are not pending are left alone. Deltas end with the lease, the connection, a reconfigure, the
 * start of the job, and before slurmctld saves its state at shutdown; what a crash leaves behind is
 * removed from the ledger's knowledge before new ones are written.
 *
 * Locks, in this order: slurmctld's own, then `order`, then the link's. The thread holds
 * slurmctld's for bounded batches; nothing here is waited for by job_test(). */
#pragma once

#include "slurm_api.h"

/* Stop: slurmctld rebuilds its structures, or is about to; any locks. */
extern void order_void(void);

/* Start: the structures are whole; starts the thread the first time; locks: READ conf. */
extern void order_whole(void);

/* Remove the overlay's value from a job that starts; locks: WRITE job. */
extern void order_started(job_record_t *job_ptr);

/* Remove all values: slurmctld shuts down and is about to save its state; no locks held. */
extern void order_leave(void);

/* End the thread, remove what is left. RET false if the thread did not end */
extern bool order_stop(void);
