/* SPDX-License-Identifier: GPL-2.0-or-later */
/* pktbuf.c - see pktbuf.h. */

#include "pktbuf.h"

#include <string.h>

#include "grow.h"

static bool _reserve(struct pktbuf *b, size_t more)
{
	bool ok = grow((void **) &b->data, &b->cap, b->len + more, 1);

	b->failed = b->failed || !ok;
	return ok;
}

extern void *pktbuf_add(struct pktbuf *b, uint16_t type, size_t len)
{
	struct phx_hdr *hdr;

	if (!_reserve(b, len))
		return NULL;
	hdr = (struct phx_hdr *) (b->data + b->len);
	memset(hdr, 0, len);
	*hdr = PHX_HDR_OF(type, len);
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

extern void pktbuf_drop(struct pktbuf *b, size_t len, uint32_t count)
{
	if (len >= b->len) {
		pktbuf_reset(b);
	} else if (len) {
		memmove(b->data, b->data + len, b->len - len);
		b->len -= len;
		b->count -= count;
	}
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
