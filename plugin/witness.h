/* SPDX-License-Identifier: GPL-2.0-or-later */
/* witness.h - which decisions stock is asked about as well, and how they fared.
 *
 * Decisions of a kind are compared with a probability that falls as they agree with stock and is 1
 * again after one that was worse. The draws have no memory and a seed of the kernel's, and what is
 * compared is not told: nobody learns which decision will not be. What is known outlives
 * slurmctld, as long as it and the plugins are the same files. Knows nothing of Slurm. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WITNESS_FILE "phalanx_compared"
#define WITNESS_SELDOM 1024u /* one in this many of a kind that agrees is compared at least */
#define WITNESS_KINDS 1024u
#define WITNESS_AGAIN 512u  /* that must agree after one that was worse */
#define WITNESS_DAY_NS 86400000000000ull
#define WITNESS_TELL_NS 3600000000000ull

enum witness_result { WITNESS_AGREES = 0, WITNESS_BETTER = 1, WITNESS_WORSE = 2 };

/* RET the number of decisions of this kind of which one is compared now */
extern uint32_t witness_parts(uint64_t kind, uint64_t now_ns);

/* RET true once in `parts` calls on average; always where the kernel gives no seed */
extern bool witness_one_in(uint32_t parts);

/* RET whether to compare this decision
 * IN most - one in this many is compared in any case */
extern bool witness_draw(uint64_t kind, uint32_t most, uint64_t now_ns);

/* Report what came of a comparison. */
extern void witness_note(uint64_t kind, enum witness_result result, uint64_t now_ns);

/* Copy the counts by result into `told`, at most once in WITNESS_TELL_NS; by one thread. */
extern void witness_tell(uint64_t *told, uint64_t now_ns);

/* Take up what the file of this build holds, once; without one all is compared at first.
 * IN build - a hash of what decides beside the daemon */
extern void witness_load(uint64_t build, uint64_t now_ns);

/* RET whether one was worse and the file does not say so yet */
extern bool witness_is_urgent(void);

/* Write the file if something was compared since. */
extern void witness_save(uint64_t now_ns);
