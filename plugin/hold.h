/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hold.h - may the daemon's word that a job is to wait be followed? */
#pragma once

#include "slurm_api.h"

/* phalanx_hold_max of SchedulerParameters: the longest time for which any job is
 * held, whatever the daemon says.  Reads it anew. */
extern void hold_read_conf(void);

/* IN by_limit - a limit of the administrator's is the reason (PHX_A_LIMIT) */
extern bool hold_allowed(const job_record_t *job_ptr, bool by_limit);
