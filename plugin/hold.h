/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hold.h - whether a call may fail as the daemon wants. */
#pragma once

#include "slurm_api.h"

enum hold_why {
	HOLD_DAEMON = 0, /* waiting is better, it says */
	HOLD_LIMIT = 1,  /* a limit of the administrator's, PHX_A_LIMIT */
	HOLD_CANNOT = 2, /* a proof says that too few nodes have room */
};

extern bool hold_allowed(const job_record_t *job_ptr, enum hold_why why);
