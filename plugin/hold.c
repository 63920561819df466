/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hold.c - how long jobs may be held: as the daemon says, within the bounds of slurm.conf. */

#include "hold.h"

#include <time.h>

#include "link.h"
#include "stats.h"

/* Holds are allowed only where the administrator wants them, and only for a while. In WILL_RUN
 * calls the daemon holds tasks that wait for nodes of their own: backfill then reserves none for
 * them and goes on with the next job. A call that fails by a proof is no other hold, however true
 * the proof may be: its leave is that proofs are on.
 *
 * A proof has a budget of its own, and opens no breaker: that nodes are full is nobody's fault. */
extern bool hold_allowed(const job_record_t *job_ptr, bool proved)
{
	time_t eligible = job_ptr->details->begin_time;
	struct link_limits limits = link_limits();
	bool may, ended;

	if (!(limits.flags & PHX_W_MAY_HOLD || proved) || !eligible ||
	    time(NULL) - eligible >= (time_t) limits.hold_s)
		return false;
	may = breaker_hold(&overlay_breaker, now_ns(), job_ptr->user_id,
			   phx_account_key(job_ptr->part_ptr->name) ^ proved,
			   !proved, &limits.breaker, &ended);
	if (ended)
		info("phalanx: user %u in partition %s: held for %u s of an hour, Slurm decides",
		     job_ptr->user_id, job_ptr->part_ptr->name,
		     limits.breaker.held_s);
	if (!may)
		return false;
	stat_add(&overlay_stats.held_calls, 1);
	return true;
}
