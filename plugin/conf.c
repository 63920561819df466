/* SPDX-License-Identifier: GPL-2.0-or-later */
/* conf.c - the limits in slurm.conf, which its owner alone writes: no daemon exceeds them. */

#include "slurm_api.h"

#include "conf.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"
#include "vector.h"

#ifndef PHX_CONF_ASK_MS /* the harness, slowed by its checks, needs more */
#define PHX_CONF_ASK_MS 1200u /* two in a hundred of a minute */
#endif

#define ALL_PROOFS 2

/* Names, what they are without a word in slurm.conf, and the numbers that are taken. */
static const struct {
	const char *name;
	uint32_t usual, least, most;
	size_t at; /* in struct site */
} names[] = {
	{ "phalanx_hold_max=", PHX_HOLD_S_MAX, 0, PHX_HOLD_S_MAX,
	  offsetof(struct site, hold_max_s) },
	{ "phalanx_order=", 0, 0, PHX_DELTA_MAX, offsetof(struct site, order_max) },
	{ "phalanx_ask_ms=", PHX_CONF_ASK_MS, 1, PHX_ASK_MS_MAX, offsetof(struct site, ask_ms) },
	{ "phalanx_deadline_us=", PHX_DEADLINE_US_MAX, PHX_DEADLINE_US_MIN, PHX_DEADLINE_US_MAX,
	  offsetof(struct site, deadline_us) },
	{ "phalanx_refused_pct=", 50, 0, 100, offsetof(struct site, refused_pct) },
	{ "phalanx_syncs=", 10, 0, 1000, offsetof(struct site, syncs) },
	{ "phalanx_held_s=", 2400, 0, 3600, offsetof(struct site, held_s) },
	{ "phalanx_eject=", 10, 0, BREAKER_CROSSINGS_MAX,
	  offsetof(struct site, eject_openings) },
	{ "phalanx_compare=", WITNESS_SELDOM, 1, WITNESS_SELDOM, offsetof(struct site, compare) },
	{ "phalanx_trade=", 0, 0, TRADE_WEIGHTS | TRADE_LEAVES, offsetof(struct site, trade) },
	{ "phalanx_enable=", 0, 0, UINT32_MAX, offsetof(struct site, enable) },
	{ "phalanx_uid=", 0, 0, UINT32_MAX - 1, offsetof(struct site, uid) },
	{ "phalanx_proofs=", ALL_PROOFS, 0, ALL_PROOFS, offsetof(struct site, proofs) },
};
/* Most of what `link.proofs` of the daemon may be. */
static const char *const proofs[] = { "none", "planning", "all" };

/* RET the text after the name, NULL if it is not there; OUT len - up to a comma or the end */
static const char *_find(const char *name, size_t *len)
{
	const char *params = slurm_conf.sched_params;
	const char *text = params ? xstrcasestr(params, name) : NULL;

	if (!text)
		return NULL;
	text += strlen(name);
	*len = strcspn(text, ",");
	while (*len && strchr(" \t", text[*len - 1]))
		(*len)--;
	return text;
}

/* RET whether the text is a number in range, or one of the words for proofs */
static bool _parse(const char *text, size_t len, uint32_t least, uint32_t most, uint32_t *value)
{
	char *end;
	unsigned long n;

	for (uint32_t i = 0; most == ALL_PROOFS && i < 3; i++)
		if (len == strlen(proofs[i]) && !strncasecmp(text, proofs[i], len)) {
			*value = i;
			return true;
		}
	if (*text < '0' || *text > '9') /* strtoul() takes signs and spaces */
		return false;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || n < least || n > most || end != text + len)
		return false;
	*value = (uint32_t) n;
	return true;
}

extern void conf_read(void)
{
	struct site site;
	int err = errno;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t *value = (uint32_t *) ((char *) &site + names[i].at);
		size_t len;
		const char *text = _find(names[i].name, &len);

		*value = names[i].usual;
		if (text && !_parse(text, len, names[i].least, names[i].most, value))
			error("phalanx: SchedulerParameters: %s%.*s: expected %u to %u; %u taken",
			      names[i].name, (int) len, text, names[i].least, names[i].most,
			      names[i].usual);
	}
	link_site(&site);
	errno = err;
}
