/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fake_stock.c - stands in for the stock select/cons_tres in the harness.
 * Each operation notes that it was called and with what; job_test() and a few
 * others do what the harness says.  Built several times with one thing wrong.
 */

#include <stddef.h>
#include <stdint.h>

#include "fake_stock.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION SLURM_VERSION_NUMBER
#endif
#ifndef FAKE_ID
#define FAKE_ID 109
#endif

extern struct fake_script fake; /* the harness's */

const char plugin_name[] = "fake";
#ifndef FAKE_TYPE
const char plugin_type[] = "select/cons_tres";
#else
const char plugin_type[] = FAKE_TYPE;
#endif
const uint32_t plugin_version = FAKE_VERSION;
const uint32_t plugin_id = FAKE_ID;

int init(void)
{
	fake.inits++;
	return fake.init_rc;
}

int fini(void)
{
	fake.finis++;
	return 0;
}

static uintptr_t _note(int op, uintptr_t a, uintptr_t b, uintptr_t c,
		       uintptr_t d)
{
	fake.calls[op]++;
	fake.args[0] = a;
	fake.args[1] = b;
	fake.args[2] = c;
	fake.args[3] = d;
	return FAKE_RETURN + (uintptr_t) op;
}

#ifdef FAKE_MISSING
#define select_p_job_ready select_p_job_ready_is_missing
#endif

#define OP(name) \
	uintptr_t select_p_##name(uintptr_t a, uintptr_t b, uintptr_t c, \
				  uintptr_t d) \
	{ \
		return _note(FAKE_##name, a, b, c, d); \
	}
FORWARDED_OPERATIONS(OP)

#define SIMPLE(name) \
	uintptr_t select_p_##name(uintptr_t a, uintptr_t b) \
	{ \
		(void) _note(FAKE_##name, a, b, 0, 0); \
		return (uintptr_t) (intptr_t) fake.op_rc; \
	}
FAKE_SIMPLE(SIMPLE)

#if SINCE(24, 11)
#define WILL_RUN_PARAM , void *will_run
#define WILL_RUN will_run
#else
#define WILL_RUN_PARAM
#define WILL_RUN NULL
#endif

int select_p_job_test(void *job, void *bitmap, uint32_t min, uint32_t max,
		      uint32_t req, uint16_t mode, void *candidates,
		      void *preemptees, void *exc WILL_RUN_PARAM)
{
	fake.calls[FAKE_job_test]++;
	fake.will_run = WILL_RUN;
	return fake.job_test(job, bitmap, min, max, req, mode, candidates,
			     preemptees, exc);
}
