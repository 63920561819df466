/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hold.h - whether a job may be held as the daemon wants. */
#pragma once

#include "slurm_api.h"

/* Read phalanx_hold_max of SchedulerParameters: the longest hold of any job, whatever the daemon
 * says. */
extern void hold_read_conf(void);

/* RET whether a job may be held. IN by_limit - because of an administrator's limit (PHX_A_LIMIT) */
extern bool hold_allowed(const job_record_t *job_ptr, bool by_limit);
