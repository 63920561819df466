/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pktbuf.h - a growing sequence of whole packets; each starts with a struct phx_hdr whose length
 * says where the next one begins. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "phalanx_wire.h"

/* Header of a message; its number is set as it is sent. */
#define PHX_HDR_OF(type_, length_) ((struct phx_hdr) { \
	.magic = PHX_MAGIC, .version = PHX_VERSION, .type = (type_), \
	.length = (uint32_t) (length_) })

struct pktbuf {
	uint8_t *data;
	size_t len;      /* bytes in use */
	size_t cap;
	uint32_t count;  /* packets */
	bool failed;     /* memory ran out: the contents are incomplete */
};

/* Append a packet of `len` bytes (a multiple of 8, header included), zeroed but for its header.
 * RET the packet, valid until the next call; NULL if memory ran out */
extern void *pktbuf_add(struct pktbuf *b, uint16_t type, size_t len);

/* Append all packets of `from`. RET false if memory ran out */
extern bool pktbuf_append(struct pktbuf *b, const struct pktbuf *from);

/* Forget the packets of the first `len` bytes, `count` of them. */
extern void pktbuf_drop(struct pktbuf *b, size_t len, uint32_t count);

/* Forget the packets, keep the memory. */
extern void pktbuf_reset(struct pktbuf *b);

extern void pktbuf_free(struct pktbuf *b);
