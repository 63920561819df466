/* SPDX-License-Identifier: GPL-2.0-or-later */
/* slurm_api.h - Slurm's own headers, in the order they need. */
#pragma once

#include "src/common/slurm_xlator.h" /* must be first */

#include "slurm/slurm_errno.h"
#include "slurm/slurm_version.h"

#include "slots.h"

#include "src/common/assoc_mgr.h"
#include "src/common/bitstring.h"
#include "src/common/job_resources.h"
#include "src/common/list.h"
#include "src/common/log.h"
#include "src/common/node_conf.h"
#include "src/common/read_config.h"
#include "src/common/run_in_daemon.h"
#include "src/common/xmalloc.h"
#if SINCE(23, 2)
#include "src/interfaces/gres.h"
#include "src/interfaces/select.h"
#include "src/interfaces/topology.h"
#else
#include "src/common/gres.h"
#include "src/common/select.h"
#include "src/common/slurm_topology.h"
#endif
#include "src/slurmctld/locks.h"
#include "src/slurmctld/slurmctld.h"

#include "release.h"
