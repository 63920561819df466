/* SPDX-License-Identifier: GPL-2.0-or-later */
/* proof.h - for which calls a proof may be asked for, and whether stock's result confirms it.
 * Contents of proofs: src/planner/proof. */
#pragma once

#include "phalanx_wire.h"
#include "slurm_api.h"

/* Least number of candidates for which TEST_ONLY is asked. */
#ifndef PROOF_TEST_ONLY_MIN /* the harness has few nodes */
#define PROOF_TEST_ONLY_MIN 64
#endif

/* RET whether the result of a call of this mode may be proved
 * IN preempt - there are candidates to preempt
 * IN exc - reservations keep cores or gres */
extern bool proof_allowed(const job_record_t *job_ptr, uint16_t mode, bool preempt, bool exc);

/* RET true if the start times that stock finds are the ends of windows that double */
extern bool proof_windows(void);

/* Result of stock in full, for the outcome. */
struct proof_full {
	bool found;
	time_t start; /* start that WILL_RUN found */
};

/* Compare a proof with the result of stock in full. out->start and out->proof_result (accepted or
 * rejected) are those of the chosen nodes.
 * IN from - the caller takes an earlier start for this one
 * OUT out->proof_result, out->full_start */
extern void proof_judge(struct phx_outcome *out, const struct phx_answer *answer,
			const struct proof_full *full, time_t from);
