/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state.h - reads slurmctld's structures into wire records. All functions need slurmctld's locks:
 * the operations are called with them held, and state_build() takes them itself. */
#pragma once

#include "pktbuf.h"
#include "slurm_api.h"

/* Content of a sync. */
struct state_info {
	uint32_t nodes;
	uint32_t jobs;
	uint64_t table_hash; /* state_table_hash() of the state sent */
};

/* Append SYNC_BEGIN .. SYNC_END; locks: READ conf, job, node, part.
 * RET false if memory ran out */
extern bool state_build(struct pktbuf *out, struct state_info *info);

/* Hash of NODES and TOPOLOGY; locks: READ conf, node */
extern uint64_t state_table_hash(void);

/* Nodes that were out, or none, in the last NODES: the daemon's view */
extern uint64_t state_sent_out[];

/* RET whether nodes of a word of the bitmap were of this Weight then, in tier 0 */
extern bool state_was_sent(uint32_t w, uint64_t nodes, uint64_t key);

/* Append the JOB messages of one running or suspended job.
 * IN suspended - its CPUs are free
 * RET false if the job holds nothing or memory ran out */
extern bool state_job(struct pktbuf *out, job_record_t *job_ptr, uint32_t cause, bool suspended);

extern void state_job_end(struct pktbuf *out, job_record_t *job_ptr);

/* RET true if the job is suspended with its cores free: by a user or administrator, not by gang
 *     scheduling */
extern bool state_job_suspended(job_record_t *job_ptr);

/* Arguments of a call of job_test(), as the caller gave them. */
struct call {
	job_record_t *job_ptr;
	bitstr_t *node_bitmap;
	uint32_t min_nodes;
	uint32_t max_nodes;
	uint32_t req_nodes;
	uint16_t mode;
	list_t *candidates; /* jobs that may be preempted, or NULL */
	list_t **preemptees;
	exc_t *exc; /* cores or gres that reservations keep, or NULL */
	bool later; /* the nodes are not meant for now */
	bool prove; /* its result may be proved: the ASK has the nodes that are left out too */
	time_t from; /* start and end that the caller knows of, or 0 */
	time_t to;
	uint64_t start_ns;
	uint64_t turn;
	bool compared;     /* a start or a wait, with stock's own decision */
	uint64_t extra_ns; /* of calls of stock beyond those that it would have had */
	/* errno as it would be without us: slurmctld looks at it where nothing
	 * has set it, so what our own system calls leave must not be seen. */
	int err;
};

/* Write an ASK without its numbers of nodes.
 * IN/OUT ask - zeroed but for its arrays; PHX_PACKET_MAX bytes of room
 * RET PHX_R_NONE, or why this call is not asked about */
extern uint16_t state_ask(struct phx_ask *ask, const struct call *call);

/* RET whether the job names an input that it wants to be near */
extern bool state_declares_input(const job_record_t *job_ptr);

/* Copy a bitmap to words, bit i of word w being 64*w+i; unused bits are 0. */
extern void state_bitmap_words(bitstr_t *bitmap, uint32_t bits, uint64_t *words);

/* Fill a HELLO's fixed part; locks: READ conf, node. */
extern void state_hello(struct phx_hello *hello, time_t loaded);
