/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hold.h - whether a call may fail as the daemon wants. */
#pragma once

#include "slurm_api.h"

/* IN proved - a proof says that too few nodes have room; else the daemon that waiting is better */
extern bool hold_allowed(const job_record_t *job_ptr, bool proved);
