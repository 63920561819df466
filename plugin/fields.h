/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fields.h - Slurm's names and numbers as the wire has them. */

#pragma once

#include "slurm_api.h"

#include <string.h>

#include "phalanx_wire.h"

static inline void field_copy_name(char *out, const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (len >= PHX_NAME_LEN)
		len = PHX_NAME_LEN - 1;
	if (len)
		memcpy(out, name, len);
	memset(out + len, 0, PHX_NAME_LEN - len);
}

/* Convert Slurm's "not given" and "unlimited" of 16 bits to 0. */
static inline uint32_t field_given16(uint16_t value)
{
	return (value == NO_VAL16 || value == INFINITE16) ? 0 : value;
}

static inline uint64_t field_given64(uint64_t value)
{
	return (value == NO_VAL64 || value == INFINITE64) ? 0 : value;
}
