/* SPDX-License-Identifier: GPL-2.0-or-later */
/* proof.c - see proof.h. */

#include "slurm_api.h"

#include "proof.h"

#include <string.h>

#include "link.h"

/* Whether jobs of this partition may share nodes or CPUs. */
static int _is_shared(void *x, void *arg)
{
	const part_record_t *part_ptr = x;

	(void) arg;
	return part_ptr->max_share > 1;
}

/* Whether CPUs may have several jobs: then free CPUs prove nothing. */
static bool _cpus_are_shared(void)
{
	return (slurm_conf.preempt_mode & PREEMPT_MODE_GANG) || !part_list ||
	       list_find_first(part_list, _is_shared, NULL);
}

extern bool proof_allowed(const job_record_t *job_ptr, uint16_t mode, bool preempt, bool exc)
{
	uint32_t flags = link_flags();

	/* Calls for alternative features build on each other's nodes: others make one fail. */
	if (strchr(job_ptr->details->features ?: "", '['))
		return false;
	if (mode == SELECT_MODE_TEST_ONLY) /* no job, no licence counts here */
		return flags & PHX_W_PROVE_TEST_ONLY;
	if (!(flags & (mode == SELECT_MODE_WILL_RUN ? PHX_W_PROVE_WILL_RUN : PHX_W_PROVE_NO_FIT)))
		return false;
	return !preempt && !exc && !job_ptr->license_list &&
	       !job_ptr->req_switch && !(job_ptr->bit_flags & TEST_NOW_ONLY) && !_cpus_are_shared();
}

extern bool proof_windows(void)
{
	return !JOB_TEST_HAS_UNTIL && !xstrcasestr(slurm_conf.sched_params, "bf_window_linear=");
}

extern void proof_judge(struct phx_outcome *out, const struct phx_answer *answer,
			const struct proof_full *full, time_t from)
{
	bool accepted = out->proof_result == PHX_PR_ACCEPTED;
	uint64_t least = MAX((uint64_t) from, out->start);
	uint64_t start = MAX((uint64_t) from, (uint64_t) full->start);
	bool refuted;

	out->full_start = full->found ? (uint64_t) full->start : 0;
	switch (answer->proof) {
	case PHX_P_WILL_RUN:
		/* What is not later than any start of all nodes, and whatever
		 * was refused: no start comes before its proved bound. */
		refuted = full->found &&
			  (start < answer->not_before ||
			   (accepted && (!out->start || start < least)));
		break;
	case PHX_P_TEST_ONLY:
		refuted = accepted && !full->found;
		break;
	default: /* PHX_P_NO_FIT */
		refuted = full->found;
	}
	if (refuted)
		out->proof_result = PHX_PR_REFUTED;
	else if (accepted)
		out->proof_result = PHX_PR_VERIFIED;
}
