/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pktbuf.c - see pktbuf.h.  Plain malloc: Slurm's xmalloc ends the process
 * when memory runs out, the overlay must not. */

#include "pktbuf.h"

#include <stdlib.h>
#include <string.h>

#define PKTBUF_MIN_CAP 4096u

static bool _reserve(struct pktbuf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : PKTBUF_MIN_CAP;
	uint8_t *data;

	while (cap < b->len + more)
		cap *= 2;
	if (cap == b->cap)
		return true;
	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

extern void *pktbuf_add(struct pktbuf *b, uint16_t type, size_t len)
{
	struct phx_hdr *hdr;

	if (!_reserve(b, len))
		return NULL;
	hdr = (struct phx_hdr *) (b->data + b->len);
	memset(hdr, 0, len);
	hdr->magic = PHX_MAGIC;
	hdr->version = PHX_VERSION;
	hdr->type = type;
	hdr->length = (uint32_t) len;
	b->len += len;
	b->count++;
	return hdr;
}

extern bool pktbuf_append(struct pktbuf *b, const struct pktbuf *from)
{
	if (from->failed)
		b->failed = true;
	if (b->failed || !_reserve(b, from->len))
		return false;
	if (from->len)
		memcpy(b->data + b->len, from->data, from->len);
	b->len += from->len;
	b->count += from->count;
	return true;
}

extern void pktbuf_reset(struct pktbuf *b)
{
	b->len = 0;
	b->count = 0;
	b->failed = false;
}

extern void pktbuf_free(struct pktbuf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}
