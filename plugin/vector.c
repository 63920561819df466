/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vector.c - see vector.h. */

#include "slurm_api.h"

#include "topology.h"
#include "vector.h"

/* Parts of what _set_sched_weight() of Slurm's node_scheduler.c puts together for a start. */
#define TIER(node_ptr) ((node_ptr)->sched_weight >> 40 || (node_ptr)->node_state & CLASS_STATES)
#define WEIGHT(node_ptr) ((uint64_t) (uint32_t) ((node_ptr)->sched_weight >> 8) + 1)

extern struct vector vector_of(const job_record_t *job_ptr, bitstr_t *nodes)
{
	struct vector v = { .nodes = nodes, .count = (uint32_t) bit_set_count(nodes) };

	for (int i = 0; i < bit_size(nodes); i++)
		v.not_ready += bit_test(nodes, i) && TIER(node_record_table_ptr[i]);
	v.leaves = topology_leaves(job_ptr->part_ptr, nodes);
	v.cpus = job_ptr->job_resrcs ? job_ptr->job_resrcs->ncpus : 0;
	return v;
}

/* RET above 0 if ours are heavier than stock's: at the heaviest Weight of which one has more */
static int _heavier(bitstr_t *ours, bitstr_t *stocks)
{
	uint64_t below = UINT64_MAX, top;
	int more = 0;

	do {
		top = 0;
		for (int i = 0; i < bit_size(ours); i++) {
			bool own = bit_test(ours, i);
			uint64_t weight;

			if (own == (bool) bit_test(stocks, i))
				continue;
			weight = WEIGHT(node_record_table_ptr[i]);
			if (weight >= below || weight < top)
				continue;
			more = weight > top ? 0 : more;
			top = weight;
			more += own ? 1 : -1;
		}
		below = top;
	} while (top && !more);
	return more;
}

static uint64_t _heaviest(bitstr_t *nodes)
{
	uint64_t most = 0;

	for (int i = 0; i < bit_size(nodes); i++) {
		if (bit_test(nodes, i))
			most = MAX(most, WEIGHT(node_record_table_ptr[i]));
	}
	return most;
}

static int _more(uint64_t ours, uint64_t stocks)
{
	return (ours > stocks) - (ours < stocks);
}

extern enum witness_result vector_compare(const struct vector *ours, const struct vector *stocks,
					  uint32_t trade)
{
	int parts[] = {
		trade & TRADE_NODES ? 0 : _more(ours->count, stocks->count),
		_more(ours->not_ready, stocks->not_ready),
		trade & TRADE_WEIGHTS ? 0 :
		trade & TRADE_NODES ? _more(_heaviest(ours->nodes), _heaviest(stocks->nodes)) :
		_heavier(ours->nodes, stocks->nodes),
		trade & TRADE_LEAVES ? 0 : _more(ours->leaves, stocks->leaves),
		_more(ours->cpus, stocks->cpus),
	};
	enum witness_result result = WITNESS_AGREES;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i] > 0)
			return WITNESS_WORSE;
		if (parts[i] < 0)
			result = WITNESS_BETTER;
	}
	return result;
}
