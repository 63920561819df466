/* SPDX-License-Identifier: GPL-2.0-or-later */
/* topology.c - see topology.h.  The text is that of `scontrol show topology`.
 * Source: topo_info.c and proc_req.c of 22.05.8; topology.c and the topology
 * plugins of 23.11 to 26.05. */

#include "slurm_api.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fields.h"
#include "fnv.h"
#include "topology.h"

#define REFRESH_S 30 /* between readings; printing is quadratic in the size */

struct topology {
	char name[PHX_NAME_LEN];
	char plugin[PHX_NAME_LEN];
	char *text; /* malloc(), NULL if there is none */
	bool unknown;
	uint32_t *leaf_of; /* number of each node's leaf, from 1; NULL if not known */
	uint32_t leaves;
	uint32_t nodes;    /* of the table */
};

static struct topology topologies[PHX_TOPOLOGIES_MAX];
static _Atomic uint32_t count;
static _Atomic bool stale = true;
static time_t read_at; /* unix time */
static time_t node_seen, part_seen; /* slurmctld's last updates, then */
static uint64_t hash;

extern const char *topology_plugin(const char *name)
{
	static const char prefix[] = "topology/";

	if (!name || !*name)
		return "flat";
	if (!strncmp(name, prefix, sizeof(prefix) - 1))
		name += sizeof(prefix) - 1;
	if (!strcmp(name, "none") || !strcmp(name, "default") || !strcmp(name, "3d_torus"))
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

/* Log once why a topology is unknown: it would come every 30 s. */
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

/* Look up slurmctld's functions. RET false if one is missing */
static bool _look_up(struct functions *f)
{
	*(void **) &f->get = dlsym(RTLD_DEFAULT, TOPOLOGY_GET);
	*(void **) &f->print = dlsym(RTLD_DEFAULT, TOPOLOGY_PRINT);
	*(void **) &f->free = dlsym(RTLD_DEFAULT, TOPOLOGY_FREE);
	return f->get && f->print && f->free;
}

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

/* Whether Slurm prints this topology: its function takes the plugin's number for that of a
 * topology, and calls the right plugin only for the first one's, and for that of the second
 * topology. */
static bool _prints(const struct functions *f, uint32_t index, uint32_t plugin_id)
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

static bool _prints(const struct functions *f, uint32_t index, uint32_t plugin_id)
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
		if (!TOPOLOGY_SIZES_PRINTED && !strcmp(t->plugin, "block"))
			_unknown(t, "this release prints no block sizes");
		else if (!_prints(&f, index, info->plugin_id))
			_unknown(t, "slurmctld cannot print it");
		else if (TOPOLOGY_PRINT_CALL(f.print, info, &text))
			_unknown(t, "slurmctld does not print it");
		else
			_set_text(t, text);
	}
	xfree(text);
	(void) (*(f.free))(info);
}

#endif

/* Name the topologies that partitions use. RET their number */
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
			field_copy_name(topologies[index].name, PART_TOPOLOGY_NAME(part_ptr));
	}
	if (it)
		list_iterator_destroy(it);
#endif
	return n;
}

/* Number the leaves: lines with a level of 0, whose nodes end the line. */
static void _read_leaves(struct topology *t)
{
	char *text = t->text && !t->unknown ? strdup(t->text) : NULL, *rest = NULL;

	t->nodes = (uint32_t) node_record_count;
	t->leaf_of = text ? calloc(t->nodes + 1, sizeof(*t->leaf_of)) : NULL;
	for (char *line = text; t->leaf_of && (line = strtok_r(line, "\n", &rest)); line = NULL) {
		char *names = strstr(line, " Level=0 ") ? strstr(line, " Nodes=") : NULL, *name;
		__typeof__(hostlist_create(NULL)) list;

		if (!names || !(list = hostlist_create(strchr(names, '=') + 1)))
			continue;
		t->leaves++;
		for (; (name = hostlist_shift(list)); free(name)) {
			const node_record_t *node_ptr = find_node_record2(name);

			if (node_ptr && node_ptr->index < t->nodes)
				t->leaf_of[node_ptr->index] = t->leaves;
		}
		hostlist_destroy(list);
	}
	free(text);
}

static void _read(struct topology *t, uint32_t index)
{
	field_copy_name(t->plugin, topology_plugin(slurm_conf.topology_plugin));
	if (!t->name[0])
		t->unknown = true; /* no partition uses it */
	else if (TOPOLOGY_NAMED || !strcmp(t->plugin, "tree") || !strcmp(t->plugin, "block"))
		_read_text(t, index);
	if (!strcmp(t->plugin, "tree"))
		_read_leaves(t);
}

extern uint32_t topology_leaves(const part_record_t *part_ptr, bitstr_t *nodes)
{
	uint16_t index = topology_of(part_ptr);
	const struct topology *t = index < PHX_TOPOLOGIES_MAX ? &topologies[index] : NULL;
	bitstr_t *touched;
	int count;

	if (!t || !t->leaves || t->nodes != (uint32_t) bit_size(nodes))
		return 0;
	touched = bit_alloc(t->leaves + 1);
	for (uint32_t i = 0; i < t->nodes; i++)
		if (bit_test(nodes, i))
			bit_set(touched, t->leaf_of[i]);
	count = bit_set_count(touched);
	bit_free(touched);
	return (uint32_t) count;
}

static uint64_t _hash_all(uint32_t n)
{
	uint64_t h = fnv_bytes(FNV_OFFSET, &n, sizeof(n));

	for (uint32_t i = 0; i < n; i++) {
		const struct topology *t = &topologies[i];

		h = fnv_bytes(h, t->name, sizeof(t->name));
		h = fnv_bytes(h, t->plugin, sizeof(t->plugin));
		h = fnv_bytes(h, &t->unknown, sizeof(t->unknown));
		if (t->text)
			h = fnv_bytes(h, t->text, strlen(t->text) + 1);
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
	/* A clock that was set back gives changes earlier times than that. */
	if (!forced && last_node_update == node_seen && last_part_update == part_seen &&
	    MAX(node_seen, part_seen) < read_at)
		return;
	read_at = now;
	node_seen = last_node_update;
	part_seen = last_part_update;
	/* It would cut the lines. */
	if (getenv("SLURM_TOPO_LEN"))
		(void) unsetenv("SLURM_TOPO_LEN");
	for (uint32_t i = 0; i < PHX_TOPOLOGIES_MAX; i++) {
		free(topologies[i].text);
		free(topologies[i].leaf_of);
	}
	memset(topologies, 0, sizeof(topologies));
	n = _name_all();
	for (uint32_t i = 0; i < n; i++)
		_read(&topologies[i], i);
	hash = _hash_all(n);
	atomic_store(&count, n);
}

static bool _put_part(struct pktbuf *out, uint32_t index, size_t from, size_t bytes, size_t total)
{
	const struct topology *t = &topologies[index];
	struct phx_topology *msg;

	msg = pktbuf_add(out, PHX_TOPOLOGY, sizeof(*msg) + ((bytes + 7) & ~(size_t) 7));
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
