/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conf.h - what slurm.conf allows the daemon. */
#pragma once

/* Read the names phalanx_... of SchedulerParameters; under slurmctld's locks. */
extern void conf_read(void);
