/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hold.c - how long jobs may be held: as the daemon says, within the bound of slurm.conf, which no
 * daemon can change. */

#include "hold.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "breaker.h"
#include "link.h"
#include "packet.h"
#include "phalanx_wire.h"
#include "stats.h"

#define NAME "phalanx_hold_max="
#define OF_LIMIT 1u /* makes another number of a partition's */

static _Atomic uint32_t conf_max_s = PHX_CONF_HOLD_S;

/* RET whether the text is a number of seconds in range, up to a comma or the end */
static bool _parse(const char *text, uint32_t *seconds)
{
	char *end;
	unsigned long n;

	if (*text < '0' || *text > '9') /* strtoul() takes signs and spaces */
		return false;
	errno = 0;
	n = strtoul(text, &end, 10);
	end += strspn(end, " \t");
	if (errno || n > PHX_CONF_HOLD_S_MAX || (*end && *end != ','))
		return false;
	*seconds = (uint32_t) n;
	return true;
}

extern void hold_read_conf(void)
{
	const char *params = slurm_conf.sched_params;
	const char *text = params ? xstrcasestr(params, NAME) : NULL;
	uint32_t seconds = PHX_CONF_HOLD_S;
	int err = errno;

	if (text) {
		text += strlen(NAME);
		if (!_parse(text, &seconds))
			error("phalanx: slurm.conf: SchedulerParameters: " NAME
			      "%.*s: expected seconds from 0 to %d; %d taken",
			      (int) strcspn(text, ","), text, PHX_CONF_HOLD_S_MAX,
			      PHX_CONF_HOLD_S);
	}
	atomic_store(&conf_max_s, seconds);
	errno = err;
}

/* Holds are allowed only where the administrator wants them, and only for a while. In WILL_RUN
 * calls the daemon holds tasks that wait for nodes of their own: backfill then reserves none for
 * them and goes on with the next job.
 *
 * A hold by an administrator's limit has a time of its own and no budget: a limit of power is no
 * favour to the user who is held. */
extern bool hold_allowed(const job_record_t *job_ptr, bool by_limit)
{
	time_t eligible = job_ptr->details->begin_time;
	uint32_t partition = phx_account_key(job_ptr->part_ptr->name);
	struct link_limits limits = link_limits();
	uint32_t longest = by_limit ? limits.limit_hold_s : PHX_HOLD_S_MAX;
	bool may, ended;

	longest = MIN(longest, atomic_load(&conf_max_s));
	if (!(limits.flags & PHX_W_MAY_HOLD) || !eligible ||
	    time(NULL) - eligible >= (time_t) longest)
		return false;
	if (by_limit) {
		partition ^= OF_LIMIT;
		limits.breaker.held_s = 0;
	}
	may = breaker_hold(&overlay_breaker, now_ns(), job_ptr->user_id,
			   partition, &limits.breaker, &ended);
	if (ended)
		info("phalanx: user %u in partition %s: held for %u s of an hour, Slurm decides",
		     job_ptr->user_id, job_ptr->part_ptr->name,
		     limits.breaker.held_s);
	if (!may)
		return false;
	stat_add(&overlay_stats.held_calls, 1);
	return true;
}
