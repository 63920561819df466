/* SPDX-License-Identifier: GPL-2.0-or-later */
/* topology.h - slurmctld's topologies as text, kept until they may have
 * changed.  Everything but topology_of() and topology_leaves() belongs to the overlay's thread. */
#pragma once

#include "pktbuf.h"
#include "slurm_api.h"

/* Read the topologies anew where needed: after topology_stale(), and at most every 30 s where
 * nodes or partitions have changed since. locks: READ conf, node, part */
extern void topology_refresh(void);

/* Note that the configuration was read again. */
extern void topology_stale(void);

/* Hash of the content of all TOPOLOGY messages. */
extern uint64_t topology_hash(void);

/* Append the TOPOLOGY messages. RET false if memory ran out */
extern bool topology_put(struct pktbuf *out);

/* RET index of the partition's topology, INFINITE16 if it has none here */
extern uint16_t topology_of(const part_record_t *part_ptr);

/* Slurm's plugin, "topology/NAME" or NAME, under the name that the daemon knows: those that treat
 * nodes as alike are "flat" in every release. */
extern const char *topology_plugin(const char *name);

/* RET the number of leaf switches that these nodes touch, 0: not known; locks: WRITE node */
extern uint32_t topology_leaves(const part_record_t *part_ptr, bitstr_t *nodes);
