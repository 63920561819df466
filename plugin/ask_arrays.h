/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ask_arrays.h - the arrays of an ASK: candidates, classes, excluded cores,
 * jobs that may be preempted. */
#pragma once

#include "state.h"

/* Write all arrays behind the fixed part, and its counts, flags and header.
 * RET PHX_R_NONE, or why this call is not asked about */
extern uint16_t ask_put_arrays(struct phx_ask *ask, const struct call *call);
