/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slots.h - all that differs between releases of Slurm's select plugin API.
 *
 * A release is a generation if Slurm's own table of operations and all
 * signatures are the same; the table itself, slurm_select_ops_t, comes from
 * the headers of the release this is built for, so the order below must be
 * that of node_select_syms[] in the same release (checked by its size).
 *
 *   generation   operations   job_test ends with
 *   22.05        37           bitstr_t *exc_core_bitmap
 *   23.02        33           the same
 *   23.11, 24.05 32           resv_exc_t *
 *   24.11        32           resv_exc_t *, will_run_data_t *
 *
 * Source: src/common/select.c (22.05), src/interfaces/select.c (later).
 */
#ifndef PHALANX_SLOTS_H
#define PHALANX_SLOTS_H

#define SLURM_GENERATION (SLURM_VERSION_NUMBER >> 8) /* major, minor */

#if SLURM_GENERATION != 0x1605
#error "this overlay knows Slurm 22.05 only; add the release to slots.h"
#endif

/* Symbols of the operations in the order of slurm_select_ops_t. */
#define STOCK_SYMBOLS \
	"plugin_id", \
	"select_p_state_save", \
	"select_p_state_restore", \
	"select_p_job_init", \
	"select_p_node_init", \
	"select_p_job_test", \
	"select_p_job_begin", \
	"select_p_job_ready", \
	"select_p_job_expand", \
	"select_p_job_resized", \
	"select_p_job_signal", \
	"select_p_job_fini", \
	"select_p_job_suspend", \
	"select_p_job_resume", \
	"select_p_step_pick_nodes", \
	"select_p_step_start", \
	"select_p_step_finish", \
	"select_p_select_nodeinfo_pack", \
	"select_p_select_nodeinfo_unpack", \
	"select_p_select_nodeinfo_alloc", \
	"select_p_select_nodeinfo_free", \
	"select_p_select_nodeinfo_set_all", \
	"select_p_select_nodeinfo_set", \
	"select_p_select_nodeinfo_get", \
	"select_p_select_jobinfo_alloc", \
	"select_p_select_jobinfo_free", \
	"select_p_select_jobinfo_set", \
	"select_p_select_jobinfo_get", \
	"select_p_select_jobinfo_copy", \
	"select_p_select_jobinfo_pack", \
	"select_p_select_jobinfo_unpack", \
	"select_p_select_jobinfo_sprint", \
	"select_p_select_jobinfo_xstrdup", \
	"select_p_get_info_from_plugin", \
	"select_p_update_node_config", \
	"select_p_reconfigure", \
	"select_p_resv_test"

/*
 * Operations of which the overlay wants to know nothing:
 * X(type, name, slot, (parameters), (arguments))
 */
#define FORWARDED_OPERATIONS(X) \
	X(int, state_restore, state_restore, (char *dir_name), (dir_name)) \
	X(int, job_init, job_init, (List jobs), (jobs)) \
	X(int, job_begin, job_begin, (job_record_t *job_ptr), (job_ptr)) \
	X(int, job_ready, job_ready, (job_record_t *job_ptr), (job_ptr)) \
	X(int, job_signal, job_signal, (job_record_t *job_ptr, int sig), \
	  (job_ptr, sig)) \
	X(bitstr_t *, step_pick_nodes, step_pick_nodes, \
	  (job_record_t *job_ptr, select_jobinfo_t *jobinfo, \
	   uint32_t node_count, bitstr_t **avail_nodes), \
	  (job_ptr, jobinfo, node_count, avail_nodes)) \
	X(int, step_start, step_start, (step_record_t *step_ptr), (step_ptr)) \
	X(int, step_finish, step_finish, \
	  (step_record_t *step_ptr, bool killing_step), \
	  (step_ptr, killing_step)) \
	X(int, select_nodeinfo_pack, nodeinfo_pack, \
	  (select_nodeinfo_t *nodeinfo, buf_t *buffer, \
	   uint16_t protocol_version), \
	  (nodeinfo, buffer, protocol_version)) \
	X(int, select_nodeinfo_unpack, nodeinfo_unpack, \
	  (select_nodeinfo_t **nodeinfo, buf_t *buffer, \
	   uint16_t protocol_version), \
	  (nodeinfo, buffer, protocol_version)) \
	X(select_nodeinfo_t *, select_nodeinfo_alloc, nodeinfo_alloc, \
	  (void), ()) \
	X(int, select_nodeinfo_free, nodeinfo_free, \
	  (select_nodeinfo_t *nodeinfo), (nodeinfo)) \
	X(int, select_nodeinfo_set_all, nodeinfo_set_all, (void), ()) \
	X(int, select_nodeinfo_get, nodeinfo_get, \
	  (select_nodeinfo_t *nodeinfo, enum select_nodedata_type dinfo, \
	   enum node_states state, void *data), \
	  (nodeinfo, dinfo, state, data)) \
	X(select_jobinfo_t *, select_jobinfo_alloc, jobinfo_alloc, (void), ()) \
	X(int, select_jobinfo_free, jobinfo_free, \
	  (select_jobinfo_t *jobinfo), (jobinfo)) \
	X(int, select_jobinfo_set, jobinfo_set, \
	  (select_jobinfo_t *jobinfo, enum select_jobdata_type type, \
	   void *data), \
	  (jobinfo, type, data)) \
	X(int, select_jobinfo_get, jobinfo_get, \
	  (select_jobinfo_t *jobinfo, enum select_jobdata_type type, \
	   void *data), \
	  (jobinfo, type, data)) \
	X(select_jobinfo_t *, select_jobinfo_copy, jobinfo_copy, \
	  (select_jobinfo_t *jobinfo), (jobinfo)) \
	X(int, select_jobinfo_pack, jobinfo_pack, \
	  (select_jobinfo_t *jobinfo, buf_t *buffer, \
	   uint16_t protocol_version), \
	  (jobinfo, buffer, protocol_version)) \
	X(int, select_jobinfo_unpack, jobinfo_unpack, \
	  (select_jobinfo_t **jobinfo, buf_t *buffer, \
	   uint16_t protocol_version), \
	  (jobinfo, buffer, protocol_version)) \
	X(char *, select_jobinfo_sprint, jobinfo_sprint, \
	  (select_jobinfo_t *jobinfo, char *text, size_t size, int mode), \
	  (jobinfo, text, size, mode)) \
	X(char *, select_jobinfo_xstrdup, jobinfo_xstrdup, \
	  (select_jobinfo_t *jobinfo, int mode), (jobinfo, mode)) \
	X(int, get_info_from_plugin, get_info_from_plugin, \
	  (enum select_plugindata_info info, job_record_t *job_ptr, \
	   void *data), \
	  (info, job_ptr, data)) \
	X(bitstr_t *, resv_test, resv_test, \
	  (resv_desc_msg_t *resv, uint32_t node_cnt, bitstr_t *avail, \
	   bitstr_t **core_bitmap), \
	  (resv, node_cnt, avail, core_bitmap))

/* The end of job_test()'s parameters, to declare and to pass on. */
#define JOB_TEST_TAIL_PARAMS , bitstr_t *exc_core_bitmap
#define JOB_TEST_TAIL_ARGS , exc_core_bitmap
#define JOB_TEST_HAS_EXC_CORES (exc_core_bitmap != NULL)
#define JOB_TEST_TAIL_UNUSED ((void) exc_core_bitmap)

/* A job's priorities by partition, in the order of its part_ptr_list. */
#define JOB_PRIORITY_ARRAY(job_ptr) ((job_ptr)->priority_array)

#endif
