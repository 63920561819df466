/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * slurm_flatten.h - from libslurm's messages to flat records.
 *
 * Each function walks a message once.  The message stays the caller's.
 * RET 0, ENOMEM, or EOVERFLOW if the strings do not fit in 4 GiB; `load` is
 * filled only on 0.
 */
#ifndef PHALANX_SLURM_FLATTEN_H
#define PHALANX_SLURM_FLATTEN_H

#include "slurm_compat.h"
#include "slurm_shim.h"

int pls_flatten_jobs(const job_info_msg_t *msg, struct pls_load *load);
int pls_flatten_nodes(const node_info_msg_t *msg, struct pls_load *load);
int pls_flatten_partitions(const partition_info_msg_t *msg,
			   struct pls_load *load);
int pls_flatten_reservations(const reserve_info_msg_t *msg,
			     struct pls_load *load);
int pls_flatten_licenses(const license_info_msg_t *msg, struct pls_load *load);
int pls_flatten_conf(const slurm_conf_t *conf, struct pls_load *load);

#endif
