/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fields.h - Slurm's names and numbers as the wire has them. */

#pragma once

#include "slurm_api.h"

#include <string.h>

#include "phalanx_wire.h"

/* Copy a name whole, and none that is too long: a part of it may be another's name.
 * RET false if it is too long */
static inline bool field_copy_name(char *out, const char *name)
{
	size_t len = name ? strlen(name) : 0;
	bool fits = len < PHX_NAME_LEN;

	memset(out, 0, PHX_NAME_LEN);
	if (len && fits)
		memcpy(out, name, len);
	return fits;
}

/* Numbers that Slurm writes for "not given", "unlimited" and "not counted" are 0 on the wire: these
 * three functions are where its fields of 16, 32 and 64 bits become amounts. */
static inline uint16_t field_given16(uint16_t value)
{
	return value >= NO_VAL16 ? 0 : value;
}

static inline uint32_t field_given32(uint32_t value)
{
	return value >= NO_VAL ? 0 : value;
}

static inline uint64_t field_given64(uint64_t value)
{
	return value >= NO_CONSUME_VAL64 ? 0 : value;
}
