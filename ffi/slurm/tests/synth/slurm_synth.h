/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * slurm_synth.h - invented messages, for tests and measurements of the walk
 * over libslurm's structs without a cluster.  Only built with the feature
 * `synth`.
 */
#ifndef PHALANX_SLURM_SYNTH_H
#define PHALANX_SLURM_SYNTH_H

#include "slurm_shim.h"

enum pls_synth_kind {
	PLS_SYNTH_JOBS = 0,
	PLS_SYNTH_NODES = 1,
	PLS_SYNTH_PARTITIONS = 2,
	PLS_SYNTH_RESERVATIONS = 3,
	PLS_SYNTH_LICENSES = 4,
	PLS_SYNTH_CONF = 5,
};

/*
 * Loads `count` records in which every string of record i is "FIELD-i" and
 * every number the 64-bit FNV-1a hash of "FIELD", xor i, cut to the field's
 * width, where FIELD is Slurm's name of the field: a field that is mixed up
 * with another one shows.
 * RET as pls_load_*()
 */
int pls_synth_named(enum pls_synth_kind kind, uint32_t count,
		    struct pls_load *load);

/* Time and size of pls_synth_jobs(). */
struct pls_synth_cost {
	uint64_t flatten_ns;    /* wall time of the walk */
	uint64_t message_bytes; /* structs and strings of the message */
	uint64_t strings;       /* of the message */
};

/*
 * Loads `count` jobs like a busy site's: a few hundred users and accounts,
 * long work directories, TRES strings, host lists of running jobs.
 * RET as pls_load_*()
 */
int pls_synth_jobs(uint32_t count, struct pls_load *load,
		   struct pls_synth_cost *cost);

#endif
