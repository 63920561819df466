/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vector.h - what two starts of one job on the same candidates are compared by. */
#pragma once

#include "slurm_api.h"
#include "witness.h"

struct vector {
	bitstr_t *nodes;
	uint32_t count;
	uint32_t not_ready; /* nodes that boot, reboot or lie outside a flexible reservation */
	uint32_t leaves;    /* 0: not known */
	uint64_t cpus;      /* charged */
};

/* Parts that may be worse: slurm.conf says so of the first two. Who declares an input has his job
 * near it, on more nodes than it needs where their number is left open. */
enum vector_trade { TRADE_WEIGHTS = 1, TRADE_LEAVES = 2, TRADE_NODES = 4 };

/* RET the vector of a start that stock has just made on these nodes, which it takes.
 * locks: WRITE node */
extern struct vector vector_of(const job_record_t *job_ptr, bitstr_t *nodes);

/* RET worse where any part is greater than stock's, Weights sorted from the heaviest; better where
 *     none is and one is less. IN trade - enum vector_trade */
extern enum witness_result vector_compare(const struct vector *ours, const struct vector *stocks,
					  uint32_t trade);
