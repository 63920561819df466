/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ask.h - one question to the daemon, with a deadline. */
#pragma once

#include "packet.h"

/* RET PHX_R_NONE if an ask of this mode would be made now, else why not. After PHX_R_NONE
 *     ask_daemon() or breaker_cancel() must follow. No system call. */
extern uint16_t ask_allowed(uint16_t mode, uint64_t now);

/* Send an ASK and wait for its ANSWER until the deadline.
 * IN/OUT ask - whole packet; its seq is set
 * IN start_ns - the deadline's origin
 * OUT nodes - room for PHX_ANSWER_NODES_MAX
 * OUT answer - valid unless the reason is one of the plugin's
 * OUT reason - PHX_R_NONE: nodes[0 .. answer->count) are there; else why there is no opinion
 * RET what may follow */
extern enum follow ask_daemon(struct phx_ask *ask, const struct answer_want *want,
			      uint64_t start_ns, uint32_t *nodes,
			      struct phx_answer *answer, uint16_t *reason);
