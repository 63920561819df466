/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * topology.c - see topology.h.  The text is that of `scontrol show topology`.
 * Source: topo_info.c and proc_req.c of 22.05.8; topology.c and the topology
 * plugins of 23.11 to 26.05.
 */

#include "slurm_api.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fields.h"
#include "topology.h"

#define REFRESH_S 30 /* between readings; printing is quadratic in the size */
#define FNV_OFFSET 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull
#define BLOCK_LEVELS_DEFAULT 5 /* of 24.05, where BlockSizes is not given */

struct topology {
	char name[PHX_NAME_LEN];
	char plugin[PHX_NAME_LEN];
	uint32_t block_sizes[8];
	char *text; /* malloc(), NULL if there is none */
	bool unknown;
};

static struct topology topologies[PHX_TOPOLOGIES_MAX];
static _Atomic uint32_t count;
static _Atomic bool stale = true;
static time_t read_at; /* unix time */
static uint64_t hash;

extern const char *topology_plugin(const char *name)
{
	static const char prefix[] = "topology/";

	if (!name || !*name)
		return "flat";
	if (!strncmp(name, prefix, sizeof(prefix) - 1))
		name += sizeof(prefix) - 1;
	if (!strcmp(name, "none") || !strcmp(name, "default") ||
	    !strcmp(name, "3d_torus"))
		return "flat";
	return name;
}

extern void topology_stale(void)
{
	atomic_store(&stale, true);
}

extern uint64_t topology_hash(void)
{
	return hash;
}

extern uint16_t topology_of(const part_record_t *part_ptr)
{
	int index = PART_TOPOLOGY(part_ptr);

	if (index < 0 || (uint32_t) index >= atomic_load(&count))
		return INFINITE16;
	return (uint16_t) index;
}

/* Said once: it would come every 30 s. */
static void _unknown(struct topology *t, const char *why)
{
	static bool said;

	t->unknown = true;
	if (!said)
		info("phalanx: topology %s (%s): %s; what depends on it is "
		     "left to Slurm", t->name, t->plugin, why);
	said = true;
}

static void _set_text(struct topology *t, const char *text)
{
	if (text && strlen(text) > PHX_TOPOLOGY_BYTES_MAX) {
		_unknown(t, "it is too large");
		return;
	}
	t->text = text ? strdup(text) : NULL;
	if (text && !t->text)
		_unknown(t, "no memory");
}

#if TOPOLOGY_TABLE

static void _read_text(struct topology *t, uint32_t index)
{
	switch_record_t **table = dlsym(RTLD_DEFAULT, "switch_record_table");
	const int *switches = dlsym(RTLD_DEFAULT, "switch_record_cnt");
	char *text = NULL, *pos = NULL;

	(void) index;
	if (!table || !switches) {
		_unknown(t, "slurmctld has no table of switches");
		return;
	}
	for (int i = 0; *table && i < *switches; i++) {
		const switch_record_t *s = &(*table)[i];

		xstrfmtcatat(text, &pos, "SwitchName=%s Level=%d LinkSpeed=%u",
			     s->name, s->level, s->link_speed);
		if (s->nodes)
			xstrfmtcatat(text, &pos, " Nodes=%s", s->nodes);
		if (s->switches)
			xstrfmtcatat(text, &pos, " Switches=%s", s->switches);
		xstrcatat(text, &pos, "\n");
	}
	_set_text(t, text);
	xfree(text);
}

#else

struct functions {
	topology_get_t get;
	topology_print_t print;
	int (*free)(dynamic_plugin_data_t *topoinfo);
};

/* RET false if slurmctld lacks one */
static bool _look_up(struct functions *f)
{
	*(void **) &f->get = dlsym(RTLD_DEFAULT, TOPOLOGY_GET);
	*(void **) &f->print = dlsym(RTLD_DEFAULT, TOPOLOGY_PRINT);
	*(void **) &f->free = dlsym(RTLD_DEFAULT, TOPOLOGY_FREE);
	return f->get && f->print && f->free;
}

/*
 * BlockSizes, where the text lacks them.  To 23.11 slurmctld's own numbers,
 * later topology.conf; without it slurmctld takes the first block's size.
 */
#if !SINCE(24, 5)
static void _block_sizes(struct topology *t)
{
	const uint16_t *base = dlsym(RTLD_DEFAULT, "bblock_node_cnt");
	bitstr_t **levels = dlsym(RTLD_DEFAULT, "block_levels");
	int n = 0;

	for (int i = 0; base && levels && *levels && n < 8 &&
	     i < bit_size(*levels); i++) {
		if (bit_test(*levels, i))
			t->block_sizes[n++] = (uint32_t) *base << i;
	}
}
#elif !TOPOLOGY_SIZES_PRINTED
static uint32_t _first_block(const char *text)
{
	const char *nodes = text ? strstr(text, "Nodes=") : NULL;
	char *list, *end;
	hostlist_t *hl;
	int n;

	if (!nodes)
		return 0;
	list = strdup(nodes + sizeof("Nodes=") - 1);
	if (!list)
		return 0;
	if ((end = strpbrk(list, " \n")))
		*end = '\0';
	hl = hostlist_create(list);
	n = hl ? hostlist_count(hl) : 0;
	if (hl)
		hostlist_destroy(hl);
	free(list);
	return n > 0 ? (uint32_t) n : 0;
}

static void _block_sizes(struct topology *t)
{
	char *path = get_extra_conf_path("topology.conf");
	FILE *conf = path ? fopen(path, "re") : NULL;
	char line[1024], *at = NULL;
	uint32_t first;

	while (conf && !at && fgets(line, sizeof(line), conf)) {
		at = line + strspn(line, " \t");
		if (strncasecmp(at, "BlockSizes", 10) || !strchr(at, '='))
			at = NULL;
	}
	at = at ? strchr(at, '=') + 1 : NULL;
	for (int n = 0; at && n < 8; n++) {
		t->block_sizes[n] = (uint32_t) strtoul(at, &at, 10);
		at = *at == ',' ? at + 1 : NULL;
	}
	if (conf)
		(void) fclose(conf);
	xfree(path);
	first = t->block_sizes[0] ? 0 : _first_block(t->text);
	for (int n = 0; first && n < BLOCK_LEVELS_DEFAULT; n++)
		t->block_sizes[n] = first << n;
}
#else
static void _block_sizes(struct topology *t)
{
	(void) t;
}
#endif

#if TOPOLOGY_NAMED

static const char *_plugin_of(uint32_t plugin_id)
{
	switch (plugin_id) {
	case TOPOLOGY_PLUGIN_FLAT:
		return "flat";
	case TOPOLOGY_PLUGIN_TREE:
		return "tree";
	case TOPOLOGY_PLUGIN_BLOCK:
		return "block";
	default:
		return "other";
	}
}

/*
 * Slurm's print function takes the plugin's number for that of a topology: it
 * calls the right plugin only for the first one's, and for that of the second
 * topology.
 */
static bool _prints(const struct functions *f, uint32_t index,
		    uint32_t plugin_id)
{
	dynamic_plugin_data_t *first = NULL;
	bool same;

	if (index <= 1)
		return true;
	if (TOPOLOGY_GET_CALL(f->get, NULL, &first) || !first)
		return false;
	same = first->plugin_id == plugin_id;
	(void) (*(f->free))(first);
	return same;
}

#else

static bool _prints(const struct functions *f, uint32_t index,
		    uint32_t plugin_id)
{
	(void) f;
	(void) index;
	(void) plugin_id;
	return true;
}

#endif

static void _read_text(struct topology *t, uint32_t index)
{
	dynamic_plugin_data_t *info = NULL;
	struct functions f;
	char *text = NULL;

	if (!_look_up(&f)) {
		_unknown(t, "slurmctld lacks a function");
		return;
	}
	if (TOPOLOGY_GET_CALL(f.get, index ? t->name : NULL, &info) || !info) {
		_unknown(t, "slurmctld does not give it");
		return;
	}
#if TOPOLOGY_NAMED
	field_copy_name(t->plugin, _plugin_of(info->plugin_id));
#endif
	if (!strcmp(t->plugin, "tree") || !strcmp(t->plugin, "block")) {
		if (!_prints(&f, index, info->plugin_id))
			_unknown(t, "slurmctld cannot print it");
		else if (TOPOLOGY_PRINT_CALL(f.print, info, &text))
			_unknown(t, "slurmctld does not print it");
		else
			_set_text(t, text);
		if (!strcmp(t->plugin, "block"))
			_block_sizes(t);
	}
	xfree(text);
	(void) (*(f.free))(info);
}

#endif

/* Names of the topologies that partitions use. RET their number */
static uint32_t _name_all(void)
{
	uint32_t n = 1;

	field_copy_name(topologies[0].name, "default");
#if TOPOLOGY_NAMED
	list_itr_t *it = part_list ? list_iterator_create(part_list) : NULL;
	part_record_t *part_ptr;

	while (it && (part_ptr = list_next(it))) {
		int index = PART_TOPOLOGY(part_ptr);

		if (index < 0 || (uint32_t) index >= PHX_TOPOLOGIES_MAX)
			continue;
		n = MAX(n, (uint32_t) index + 1);
		if (PART_TOPOLOGY_NAME(part_ptr))
			field_copy_name(topologies[index].name,
					PART_TOPOLOGY_NAME(part_ptr));
	}
	if (it)
		list_iterator_destroy(it);
#endif
	return n;
}

static void _read(struct topology *t, uint32_t index)
{
	field_copy_name(t->plugin,
			topology_plugin(slurm_conf.topology_plugin));
	if (!t->name[0])
		t->unknown = true; /* no partition uses it */
	else if (TOPOLOGY_NAMED || !strcmp(t->plugin, "tree") ||
		 !strcmp(t->plugin, "block"))
		_read_text(t, index);
}

static uint64_t _hash_bytes(uint64_t h, const void *data, size_t len)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ bytes[i]) * FNV_PRIME;
	return h;
}

static uint64_t _hash_all(uint32_t n)
{
	uint64_t h = _hash_bytes(FNV_OFFSET, &n, sizeof(n));

	for (uint32_t i = 0; i < n; i++) {
		const struct topology *t = &topologies[i];

		h = _hash_bytes(h, t->name, sizeof(t->name));
		h = _hash_bytes(h, t->plugin, sizeof(t->plugin));
		h = _hash_bytes(h, t->block_sizes, sizeof(t->block_sizes));
		h = _hash_bytes(h, &t->unknown, sizeof(t->unknown));
		if (t->text)
			h = _hash_bytes(h, t->text, strlen(t->text) + 1);
	}
	return h;
}

extern void topology_refresh(void)
{
	time_t now = time(NULL);
	bool forced = atomic_exchange(&stale, false);
	uint32_t n;

	if (!forced && now >= read_at && now - read_at < REFRESH_S)
		return;
	if (!forced && MAX(last_node_update, last_part_update) < read_at)
		return;
	read_at = now;
	/* It would cut the lines. */
	if (getenv("SLURM_TOPO_LEN"))
		(void) unsetenv("SLURM_TOPO_LEN");
	for (uint32_t i = 0; i < PHX_TOPOLOGIES_MAX; i++)
		free(topologies[i].text);
	memset(topologies, 0, sizeof(topologies));
	n = _name_all();
	for (uint32_t i = 0; i < n; i++)
		_read(&topologies[i], i);
	hash = _hash_all(n);
	atomic_store(&count, n);
}

static bool _put_part(struct pktbuf *out, uint32_t index, size_t from,
		      size_t bytes, size_t total)
{
	const struct topology *t = &topologies[index];
	struct phx_topology *msg;

	msg = pktbuf_add(out, PHX_TOPOLOGY,
			 sizeof(*msg) + ((bytes + 7) & ~(size_t) 7));
	if (!msg)
		return false;
	msg->index = (uint16_t) index;
	msg->flags = (uint16_t) ((from ? 0 : PHX_PART_FIRST) |
				 (from + bytes == total ? PHX_PART_LAST : 0) |
				 (index ? 0 : PHX_TOPOLOGY_DEFAULT) |
				 (t->unknown ? PHX_TOPOLOGY_UNKNOWN : 0));
	msg->bytes = (uint32_t) bytes;
	memcpy(msg->name, t->name, sizeof(msg->name));
	memcpy(msg->plugin, t->plugin, sizeof(msg->plugin));
	memcpy(msg->block_sizes, t->block_sizes, sizeof(msg->block_sizes));
	if (bytes)
		memcpy(msg + 1, t->text + from, bytes);
	return true;
}

extern bool topology_put(struct pktbuf *out)
{
	uint32_t n = atomic_load(&count);

	for (uint32_t i = 0; i < n; i++) {
		const struct topology *t = &topologies[i];
		size_t total = t->text && !t->unknown ? strlen(t->text) : 0;
		size_t at = 0, bytes;

		do {
			bytes = MIN(total - at, (size_t) PHX_TOPOLOGY_TEXT_MAX);
			if (!_put_part(out, i, at, bytes, total))
				return false;
			at += bytes;
		} while (at < total);
	}
	return true;
}
