/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hold.c - how long jobs may be held: as the daemon says, within the bounds of slurm.conf. */

#include "hold.h"

#include <time.h>

#include "link.h"
#include "stats.h"

/* RET seconds for which a job may start. While holds of before last, a wall clock that was set back
 * counts as if it had not been. */
static int64_t _waited(time_t eligible, uint32_t hold_s)
{
	static int64_t ahead, back; /* of the monotonic clock; of what it was before */
	static uint64_t moved_at;
	uint64_t now = now_ns();
	int64_t wall = (int64_t) time(NULL), moved = wall - (int64_t) (now / 1000000000) - ahead;

	if (moved > 1 || moved < -1) {
		ahead += moved;
		back = MAX(back - moved, 0);
		moved_at = now;
	}
	if (now - moved_at >= hold_s * 1000000000ull)
		back = 0;
	return wall + back - (int64_t) eligible;
}

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
	    _waited(eligible, limits.hold_s) >= (int64_t) limits.hold_s)
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
