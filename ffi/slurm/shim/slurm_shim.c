/* SPDX-License-Identifier: GPL-3.0-or-later */
/* slurm_shim.c - see slurm_shim.h. */
#include "slurm_shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "slurm_flatten.h"

/* Slurm's numbers are named again in slurm_shim.h, which cannot include
 * slurm.h; here both are seen. */
#define SAME(ours, theirs) \
	_Static_assert((uint64_t) (ours) == (uint64_t) (theirs), #theirs)
SAME(PLS_JOB_PENDING, JOB_PENDING);
SAME(PLS_JOB_RUNNING, JOB_RUNNING);
SAME(PLS_JOB_SUSPENDED, JOB_SUSPENDED);
SAME(PLS_JOB_COMPLETE, JOB_COMPLETE);
SAME(PLS_JOB_CANCELLED, JOB_CANCELLED);
SAME(PLS_JOB_FAILED, JOB_FAILED);
SAME(PLS_JOB_TIMEOUT, JOB_TIMEOUT);
SAME(PLS_JOB_NODE_FAIL, JOB_NODE_FAIL);
SAME(PLS_JOB_PREEMPTED, JOB_PREEMPTED);
SAME(PLS_JOB_BOOT_FAIL, JOB_BOOT_FAIL);
SAME(PLS_JOB_DEADLINE, JOB_DEADLINE);
SAME(PLS_JOB_OOM, JOB_OOM);
SAME(PLS_JOB_OOM + 1, JOB_END);
SAME(PLS_JOB_STATE_BASE, JOB_STATE_BASE);
SAME(PLS_JOB_CONFIGURING, JOB_CONFIGURING);
SAME(PLS_JOB_COMPLETING, JOB_COMPLETING);
SAME(PLS_NODE_UNKNOWN, NODE_STATE_UNKNOWN);
SAME(PLS_NODE_DOWN, NODE_STATE_DOWN);
SAME(PLS_NODE_IDLE, NODE_STATE_IDLE);
SAME(PLS_NODE_ALLOCATED, NODE_STATE_ALLOCATED);
SAME(PLS_NODE_ERROR, NODE_STATE_ERROR);
SAME(PLS_NODE_MIXED, NODE_STATE_MIXED);
SAME(PLS_NODE_FUTURE, NODE_STATE_FUTURE);
SAME(PLS_NODE_STATE_BASE, NODE_STATE_BASE);
SAME(PLS_NODE_CLOUD, NODE_STATE_CLOUD);
SAME(PLS_NODE_DRAIN, NODE_STATE_DRAIN);
SAME(PLS_NODE_COMPLETING, NODE_STATE_COMPLETING);
SAME(PLS_NODE_NO_RESPOND, NODE_STATE_NO_RESPOND);
SAME(PLS_NODE_POWERED_DOWN, NODE_STATE_POWERED_DOWN);
SAME(PLS_NODE_FAIL, NODE_STATE_FAIL);
SAME(PLS_NODE_POWERING_UP, NODE_STATE_POWERING_UP);
SAME(PLS_NODE_MAINT, NODE_STATE_MAINT);
SAME(PLS_NODE_REBOOT_REQUESTED, NODE_STATE_REBOOT_REQUESTED);
SAME(PLS_NODE_POWERING_DOWN, NODE_STATE_POWERING_DOWN);
SAME(PLS_NODE_REBOOT_ISSUED, NODE_STATE_REBOOT_ISSUED);
SAME(PLS_NODE_PLANNED, NODE_STATE_PLANNED);
SAME(PLS_NODE_INVALID_REG, NODE_STATE_INVALID_REG);
SAME(PLS_NODE_POWER_DOWN, NODE_STATE_POWER_DOWN);
SAME(PLS_SHARED_NONE, JOB_SHARED_NONE);
SAME(PLS_SHARED_OK, JOB_SHARED_OK);
SAME(PLS_SHARED_USER, JOB_SHARED_USER);
SAME(PLS_SHARED_MCS, JOB_SHARED_MCS);
SAME(PLS_PARTITION_SCHED, PARTITION_SCHED);
SAME(PLS_NO_VAL16, NO_VAL16);
SAME(PLS_NO_VAL, NO_VAL);
SAME(PLS_NO_VAL64, NO_VAL64);
SAME(PLS_INFINITE16, INFINITE16);
SAME(PLS_INFINITE, INFINITE);
SAME(PLS_INFINITE64, INFINITE64);
SAME(PLS_MEM_PER_CPU, MEM_PER_CPU);
SAME(PLS_CORE_SPEC_THREAD, CORE_SPEC_THREAD);

int pls_init(uint32_t *found)
{
	*found = (uint32_t) SLURM_VERSION_MAJOR(slurm_api_version());
	if (*found != LIBSLURM_API)
		return EPROTONOSUPPORT;
	slurm_init(NULL);
	return 0;
}

void pls_fini(void)
{
	slurm_fini();
}

/*
 * Meaning of a load call's return code.  libslurm returns 0 and a message, or
 * -1 and errno; a controller's empty reply (0 and no message) cannot be told
 * from a broken one.
 */
static int _failure(int rc, const void *msg)
{
	if (!rc && msg)
		return 0;
	if (!rc)
		return EPROTO;
	if (errno == SLURM_NO_CHANGE_IN_DATA)
		return PLS_UNCHANGED;
	return errno ? errno : EPROTO;
}

int pls_load_jobs(int64_t update_time, struct pls_load *load)
{
	job_info_msg_t *msg = NULL;
	int rc;

	errno = 0;
	rc = slurm_load_jobs(update_time, &msg, SHOW_ALL);
	if ((rc = _failure(rc, msg)))
		return rc;
	rc = pls_flatten_jobs(msg, load);
	slurm_free_job_info_msg(msg);
	return rc;
}

int pls_load_job(uint32_t job_id, struct pls_load *load)
{
	job_info_msg_t *msg = NULL;
	int rc;

	errno = 0;
	rc = PLS_LOAD_JOB(&msg, job_id);
	if ((rc = _failure(rc, msg)))
		return rc;
	rc = pls_flatten_jobs(msg, load);
	slurm_free_job_info_msg(msg);
	return rc;
}

int pls_load_nodes(int64_t update_time, int gres_used, struct pls_load *load)
{
	uint16_t show = SHOW_ALL | SHOW_MIXED;
	node_info_msg_t *msg = NULL;
	int rc;

	if (gres_used)
		show |= SHOW_DETAIL;
	errno = 0;
	rc = slurm_load_node(update_time, &msg, show);
	if ((rc = _failure(rc, msg)))
		return rc;
	rc = pls_flatten_nodes(msg, load);
	slurm_free_node_info_msg(msg);
	return rc;
}

int pls_load_partitions(int64_t update_time, struct pls_load *load)
{
	partition_info_msg_t *msg = NULL;
	int rc;

	errno = 0;
	rc = slurm_load_partitions(update_time, &msg, SHOW_ALL);
	if ((rc = _failure(rc, msg)))
		return rc;
	rc = pls_flatten_partitions(msg, load);
	slurm_free_partition_info_msg(msg);
	return rc;
}

int pls_load_reservations(int64_t update_time, struct pls_load *load)
{
	reserve_info_msg_t *msg = NULL;
	int rc;

	errno = 0;
	rc = slurm_load_reservations(update_time, &msg);
	if ((rc = _failure(rc, msg)))
		return rc;
	rc = pls_flatten_reservations(msg, load);
	slurm_free_reservation_info_msg(msg);
	return rc;
}

int pls_load_licenses(int64_t update_time, struct pls_load *load)
{
	license_info_msg_t *msg = NULL;
	int rc;

	errno = 0;
	rc = slurm_load_licenses(update_time, &msg, SHOW_ALL);
	if ((rc = _failure(rc, msg)))
		return rc;
	rc = pls_flatten_licenses(msg, load);
	slurm_free_license_info_msg(msg);
	return rc;
}

int pls_load_conf(int64_t update_time, struct pls_load *load)
{
	slurm_conf_t *conf = NULL;
	int rc;

	errno = 0;
	rc = slurm_load_ctl_conf(update_time, &conf);
	if ((rc = _failure(rc, conf)))
		return rc;
	rc = pls_flatten_conf(conf, load);
	pls_free_conf(conf);
	return rc;
}

void pls_free(struct pls_load *load)
{
	free(load->records);
	free(load->arena);
	memset(load, 0, sizeof(*load));
}

const char *pls_reason_string(uint32_t reason)
{
	return pls_job_reason(reason);
}

int pls_update_job(uint32_t job_id, const char *comment)
{
	job_desc_msg_t change;

	slurm_init_job_desc_msg(&change);
	pls_job_of(change) = job_id;
	change.comment = (char *) comment;
	errno = 0;
	if (slurm_update_job(&change) == SLURM_SUCCESS)
		return 0;
	return errno ? errno : SLURM_ERROR;
}

const char *pls_strerror(int error)
{
	return slurm_strerror(error);
}

uint32_t pls_slurm_version(void)
{
	return SLURM_VERSION_NUMBER;
}

uint32_t pls_libslurm_api(void)
{
	return LIBSLURM_API;
}
