/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * topology.h - slurmctld's topologies as text, kept until they may have
 * changed.  Everything but topology_of() belongs to the overlay's thread.
 */
#pragma once

#include "pktbuf.h"
#include "slurm_api.h"

/*
 * Read them anew where that may be needed: after topology_stale(), and at most
 * every 30 s where nodes or partitions have changed since.
 * locks: READ conf, node, part
 */
extern void topology_refresh(void);

/* The configuration was read again. */
extern void topology_stale(void);

/* Hash of all that TOPOLOGY says. */
extern uint64_t topology_hash(void);

/* Append the TOPOLOGY messages. RET false if memory ran out */
extern bool topology_put(struct pktbuf *out);

/* RET index of the partition's topology, INFINITE16 if it has none here */
extern uint16_t topology_of(const part_record_t *part_ptr);

/*
 * Slurm's plugin, "topology/NAME" or NAME, as the daemon knows it: those that
 * treat nodes as alike are "flat" in every release.
 */
extern const char *topology_plugin(const char *name);
