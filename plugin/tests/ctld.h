/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ctld.h - the part of slurmctld that the overlay meets, in small. */
#ifndef PHALANX_TEST_CTLD_H
#define PHALANX_TEST_CTLD_H

#include "../slurm_api.h"
#include "../link.h"
#include "fake_stock.h"

extern bool in_slurmctld; /* what running_in_slurmctld() says */

/* Replace the node table: `count` nodes n0, n1, ..; n5 is an empty slot; the
 * first two have gpu:a100 and gpu:v100. */
extern void ctld_nodes(int count);

/* Bytes of the job record that job_record_create() makes. */
extern size_t ctld_job_bytes;
extern bitstr_t *cg_node_bitmap, *rs_node_bitmap, *power_node_bitmap, *booting_node_bitmap;

/* Two switches and one above them, as CTLD_SWITCHES; or one with nodes of this
 * name. */
#define CTLD_SWITCHES \
	"SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-3]\n" \
	"SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[4,6-7]\n" \
	"SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-4,6-7] Switches=s[0-1]\n"
extern void ctld_switches(void);
extern void ctld_clock(time_t s); /* wall clock ahead of the real one, seconds */
extern void ctld_long_topology(char *nodes);

/* Append a job to job_list: pending, asking for `min_nodes`. */
extern job_record_t *ctld_job(uint32_t job_id, uint32_t min_nodes);

/* Let it run on nodes [first, first + count), one CPU and 100 MB on each. */
extern void ctld_run(job_record_t *job_ptr, int first, int count);

/* Give it gres_list_alloc: `n` of gpu:a100 on each of its nodes. */
extern void ctld_gres(job_record_t *job_ptr, uint64_t n);

/* Its priorities for several partitions or QOSes, or NULL for none. */
extern void ctld_priorities(job_record_t *job_ptr, uint32_t *priorities);

extern void ctld_remove(job_record_t *job_ptr);
extern void ctld_write_lock(void);
extern void ctld_write_unlock(void);

extern part_record_t ctld_part; /* of every job */
/* Calls: set_job_prio(), schedule_job_save(), WRITE locks taken. */
extern int ctld_prios, ctld_saves, ctld_writes;

/* Operations of an opened overlay. */
struct overlay {
	void *handle;
	int (*init)(void);
	int (*fini)(void);
	int (*node_init)(void);
	int (*reconfigure)(void);
	int (*nodeinfo_set)(job_record_t *job_ptr);
	int (*job_fini)(job_record_t *job_ptr);
	int (*job_resized)(job_record_t *job_ptr, node_record_t *node_ptr);
	int (*job_expand)(job_record_t *from, job_record_t *to);
	int (*job_suspend)(job_record_t *job_ptr, bool indf_susp);
	int (*job_resume)(job_record_t *job_ptr, bool indf_susp);
	int (*state_save)(char *dir_name);
	int (*job_test)(job_record_t *job_ptr, bitstr_t *bitmap, uint32_t min,
			uint32_t max, uint32_t req, uint16_t mode,
			list_t *candidates,
			list_t **preemptees JOB_TEST_TAIL_PARAMS);
};

/* The arguments of one job_test() that differ between releases. */
struct call_tail {
	bitstr_t *exc_cores; /* kept by reservations, or NULL */
	time_t later;        /* where it is passed: not before then */
	void *exc;           /* OUT what was passed for exc_cores */
};

/* errno when slurmctld calls, and as the scripted stock job_test() leaves it. */
#define ERRNO_BEFORE 77
#define ERRNO_STOCK 78

/* Call an overlay's job_test() as slurmctld of this release does. */
extern int ctld_job_test(const struct overlay *o, job_record_t *job_ptr,
			 bitstr_t *bitmap, uint32_t min, uint32_t max,
			 uint32_t req, uint16_t mode, list_t *candidates,
			 list_t **preemptees, struct call_tail *tail);

/* Open a plugin file and call nothing. */
extern struct overlay overlay_open(const char *path);

#endif
