/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sim_ctld.h - what the files of the campaign's slurmctld share; see sim.h. */
#ifndef PHALANX_SIM_CTLD_H
#define PHALANX_SIM_CTLD_H

#include "../ctld.h"

#include "../../overlay.h"
#include "../../link_io.h"
#include "../../order_pass.h"
#include "../../stats.h"
#include "sim.h"

/* Limits of slurm.conf; no ejection but for a wrong proof where the daemon wants none. */
#define SIM_PARAMS "phalanx_eject=0,phalanx_syncs=0,phalanx_refused_pct=0," \
	"phalanx_order=1000000000,"

/* A job of slurmctld, and what others want its site_factor to be. */
struct wjob {
	job_record_t *j; /* NULL: free */
	uint32_t base;
};

/* What is saved of one. */
struct saved_job {
	uint32_t job_id, array_job_id, tasks, min_nodes, user_id, job_state;
	uint32_t priority, site_factor, direct_set_prio, base;
	time_t begin_time, end_time;
	uint64_t nodes;
	bool input;
};

extern struct wjob jobs[SIM_JOBS_MAX];
extern uint32_t next_job_id;
extern uint64_t stock_ns;      /* spent in stock's job_test() */
extern int stock_rc;           /* of its last call */
extern bitstr_t *stock_given;  /* and the nodes of that */

/* RET NULL if there are too many */
extern struct wjob *job_add(uint32_t job_id, uint32_t nodes);
extern void job_remove(struct wjob *w);
extern struct wjob *job_of(const job_record_t *j);
extern uint64_t job_nodes(const job_record_t *j);
extern void job_hold(job_record_t *j, uint64_t nodes);
extern void ctld_save(bool at_once);

/* The overlay's operations. */
extern int select_p_node_init(void);
extern int select_p_reconfigure(void);
extern int select_p_state_save(char *dir);
extern int select_p_select_nodeinfo_set(job_record_t *j);
extern int select_p_job_fini(job_record_t *j);
extern int select_p_update_node_config(int index);
extern int select_p_job_resized(job_record_t *j, node_record_t *node);
extern int select_p_job_expand(job_record_t *from, job_record_t *to);
extern int select_p_job_suspend(job_record_t *j, bool indf);
extern int select_p_job_resume(job_record_t *j, bool indf);
extern int select_p_job_test(job_record_t *j, bitstr_t *bitmap, uint32_t min,
			     uint32_t max, uint32_t req, uint16_t mode,
			     list_t *candidates, list_t **preemptees,
			     bitstr_t *exc_core_bitmap);
extern int fini(void);

#endif
