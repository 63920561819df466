/* SPDX-License-Identifier: GPL-2.0-or-later */
/* overlay.c - the plugin as Slurm sees it: a select/cons_tres that is found before the stock one in
 * PluginDir, opens the stock one and forwards every operation to it. In the active slurmctld it
 * also reports changes to phalanxd, and lets it narrow job_test(). Anywhere else, and whenever
 * there is a doubt, it only forwards. */

#include "slurm_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf.h"
#include "ends.h"
#include "fnv.h"
#include "layout.h"
#include "link.h"
#include "order.h"
#include "overlay.h"
#include "state.h"
#include "statefile.h"
#include "stats.h"
#include "witness.h"

#define STOCK_FILE "select_cons_tres.so"

/* Visible symbols, which Slurm and its loader look up: all others of the overlay are compiled as
 * hidden. */
#pragma GCC visibility push(default)

/* Data required of every plugin; identical to the stock plugin's but the name. */
const char plugin_name[] = "Trackable RESources (TRES) Selection plugin";
const char plugin_type[] = "select/cons_tres";
const uint32_t plugin_id = SELECT_PLUGIN_CONS_TRES;
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

/* Mark by which a copy of the overlay knows that a file is not the stock one. */
const char phalanx_overlay[] = STOCK_FILE;

/* Tentative definitions, so that the file also loads into programs that have no such data; within
 * slurmctld its own are found first. */
slurm_conf_t slurm_conf;
node_record_t **node_record_table_ptr;
int node_record_count;
time_t last_node_update;
time_t last_job_update;
time_t last_part_update;
list_t *job_list;
list_t *part_list;
slurmctld_config_t slurmctld_config;
#if HAS_TEST_CONFIG
bool test_config;
#else
static const bool test_config;
#endif

struct stock_ops stock_ops;

/* Symbols of the members of stock_ops, in their order. */
#define HANDLED_SYMBOL(type, name, params) "select_p_" #name,
#define FORWARDED_SYMBOL(name) "select_p_" #name,
static const char *const stock_symbols[] = {
	HANDLED_OPERATIONS(HANDLED_SYMBOL)
	FORWARDED_OPERATIONS(FORWARDED_SYMBOL)
};
#define STOCK_COUNT (sizeof(stock_symbols) / sizeof(stock_symbols[0]))
_Static_assert(sizeof(struct stock_ops) == STOCK_COUNT * sizeof(void *),
	       "one symbol for each member");
_Static_assert(STOCK_COUNT + 1 == OPERATIONS, "slots.h must list the operations of this release");

static void *stock_handle;
static void (*stock_fini)(void); /* what it returns, where it does, is lost */
static char stock_path[PATH_MAX];
static bool active; /* set once, under slurmctld's locks */

extern bool overlay_active(void)
{
	return active;
}

/* ---- the program that loads this */

/* RET true if the object of the running program has the size it has here */
static bool _has_size(const void *object, size_t size)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info at;

	return dladdr1(object, &at, (void **) &symbol, RTLD_DL_SYMENT) &&
	       symbol && at.dli_saddr == object && symbol->st_size == size;
}

/* Check the program: a Slurm of the same version that was patched or configured otherwise may have
 * other structures. RET NULL, or the fault */
static const char *_check_program(void)
{
	if (!_has_size(&slurm_conf, sizeof(slurm_conf)))
		return "slurm_conf has another size";
	if (!_has_size(&slurmctld_config, sizeof(slurmctld_config)))
		return "slurmctld_config has another size";
	if (slurm_conf.version && strcmp(slurm_conf.version, SLURM_VERSION_STRING))
		return "slurm_conf names another version";
	return NULL;
}

/* ---- finding the stock plugin */

/* Find the first entry of PluginDir after the overlay's that has the file.
 * OUT path - PATH_MAX bytes
 * RET false if there is none */
static bool _find_stock(const char *self, char *path)
{
	char *dirs, *dir, *next;
	bool after_ours = false, found = false;
	struct stat own, other;

	if (stat(self, &own))
		return false;
	dirs = slurm_conf.plugindir ? strdup(slurm_conf.plugindir) : NULL;
	for (dir = dirs; dir && !found; dir = next) {
		int len;

		next = strchr(dir, ':');
		if (next)
			*next++ = '\0';
		len = snprintf(path, PATH_MAX, "%s/" STOCK_FILE, dir);
		if (!*dir || len < 0 || len >= PATH_MAX || stat(path, &other))
			continue;
		if (own.st_dev == other.st_dev && own.st_ino == other.st_ino)
			after_ours = true;
		else
			found = after_ours;
	}
	free(dirs);
	return found;
}

/* RET NULL, or what the opened plugin lacks */
static const char *_check_stock(void *handle)
{
	const uint32_t *version = dlsym(handle, "plugin_version");
	const uint32_t *id = dlsym(handle, "plugin_id");
	const char *type = dlsym(handle, "plugin_type");
	void *slots[STOCK_COUNT];
	Dl_info home, at;

	if (!version || !id || !type || !dladdr(version, &home))
		return "plugin_version, plugin_id or plugin_type";
	if (*version != plugin_version)
		return "the version of this overlay";
	if (strcmp(type, plugin_type))
		return "the type select/cons_tres";
	if (dlsym(handle, "phalanx_overlay"))
		return "stock's code: it is a copy of this overlay";
	for (size_t i = 0; i < STOCK_COUNT; i++) {
		slots[i] = dlsym(handle, stock_symbols[i]);
		/* It must be its own, not one of a library it depends on. */
		if (!slots[i] || !dladdr(slots[i], &at) || at.dli_fbase != home.dli_fbase)
			return stock_symbols[i];
	}
	if (*id != plugin_id)
		return "the plugin_id of select/cons_tres";
	memcpy(&stock_ops, slots, sizeof(stock_ops));
	return NULL;
}

static int _open_stock(const char *path)
{
	int (*stock_init)(void);
	const char *lacks;

	stock_handle = dlopen(path, RTLD_LAZY);
	if (!stock_handle) {
		error("phalanx: %s, overlay not used", dlerror());
		return SLURM_ERROR;
	}
	lacks = _check_stock(stock_handle);
	if (lacks) {
		error("phalanx: %s lacks %s, overlay not used", path, lacks);
		goto fail;
	}
	stock_init = (int (*)(void)) dlsym(stock_handle, "init");
	stock_fini = (void (*)(void)) dlsym(stock_handle, "fini");
	if (stock_init && stock_init() != SLURM_SUCCESS) {
		error("phalanx: init() of %s failed, overlay not used", path);
		goto fail;
	}
	debug("phalanx: overlay loaded, forwards to %s", path);
	return SLURM_SUCCESS;

fail:
	(void) dlclose(stock_handle);
	stock_handle = NULL;
	return SLURM_ERROR;
}

/* Load the stock plugin. Any doubt is an error: Slurm's loader then takes the stock plugin from the
 * next directory itself. */
extern int init(void)
{
	const char *wrong;
	Dl_info self;

	if (stock_handle)
		return SLURM_SUCCESS;
	wrong = _check_program();
	if (wrong) {
		error("phalanx: this Slurm is not the one the overlay was "
		      "compiled for (%s): %s, overlay not used",
		      SLURM_VERSION_STRING, wrong);
		return SLURM_ERROR;
	}
	if (!dladdr(&stock_ops, &self) || !self.dli_fname) {
		error("phalanx: own file not known, overlay not used");
		return SLURM_ERROR;
	}
	if (!_find_stock(self.dli_fname, stock_path)) {
		error("phalanx: no " STOCK_FILE " after %s in PluginDir=%s, "
		      "overlay not used", self.dli_fname,
		      slurm_conf.plugindir ? slurm_conf.plugindir : "");
		return SLURM_ERROR;
	}
	return _open_stock(stock_path);
}

extern int fini(void)
{
	active = false;
	(void) order_stop();
	(void) link_stop();
	if (stock_fini)
		stock_fini();
	if (stock_handle)
		(void) dlclose(stock_handle);
	stock_handle = NULL;
	stock_fini = NULL;
	return SLURM_SUCCESS;
}

/* ---- operations that are only forwarded */

/* Forward an operation whose parameters the overlay does not know, by a jump: none has more than
 * four, integers or pointers all, and six are passed in registers. */
#define FORWARD(name) \
	extern uintptr_t select_p_##name(uintptr_t a, uintptr_t b, \
					 uintptr_t c, uintptr_t d, \
					 uintptr_t e, uintptr_t f) \
	{ \
		return stock_ops.forwarded[FORWARDED_##name](a, b, c, d, e, \
							     f); \
	}
FORWARDED_OPERATIONS(FORWARD)

/* ---- operations that change what the daemon knows */

/* Errno after each operation below is what stock left: slurmctld reads it where nothing has set it
 * (24.11: a job's partition is changed, without accounting). */

static uint64_t _hash_file(uint64_t hash, const char *path)
{
	char bytes[BUFSIZ];
	FILE *f = fopen(path, "re");
	size_t len;

	while (f && (len = fread(bytes, 1, sizeof(bytes), f)))
		hash = fnv_bytes(hash, bytes, len);
	if (f)
		(void) fclose(f);
	return hash;
}

/* RET a hash of what chooses nodes here beside the daemon: slurmctld, its library, stock's plugin
 * and this one, and how they are configured */
static uint64_t _build(const char *self)
{
	static uint64_t files;
	Dl_info library;
	const char *topology = slurm_conf.topology_plugin ?: "";
	uint64_t hash;

	if (!files) {
		files = _hash_file(FNV_OFFSET, "/proc/self/exe");
		files = _hash_file(files, stock_path);
		files = _hash_file(files, self);
		if (dladdr((void *) (uintptr_t) bit_ffs, &library))
			files = _hash_file(files, library.dli_fname);
	}
	hash = fnv_bytes(files, topology, strlen(topology));
	return fnv_bytes(hash, &slurm_conf.select_type_param,
			 sizeof(slurm_conf.select_type_param));
}

/* Start the overlay's work in the active slurmctld, which alone builds a node table. */
static void _node_table_is_built(void)
{
	int err = errno;
	Dl_info self;

	if (!active && running_in_slurmctld() && !test_config) {
		/* A thread is to run this code: it must stay mapped. */
		if (dladdr(&stock_ops, &self) &&
		    dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
			active = true;
		else
			error("phalanx: own file cannot be kept loaded, "
			      "forwarding only");
	}
	if (active) {
		conf_read();
		statefile_place(slurm_conf.state_save_location);
		if (dladdr(&stock_ops, &self))
			witness_load(_build(self.dli_fname), now_ns());
		order_void();
		link_state_void();
	}
	errno = err;
}

extern int select_p_node_init(void)
{
	_node_table_is_built();
	return (*(stock_ops.node_init))();
}

extern int select_p_reconfigure(void)
{
	int rc = (*(stock_ops.reconfigure))(), err = errno;

	if (active && rc == SLURM_SUCCESS) {
		conf_read();
		link_state_whole();
		order_whole();
	}
	errno = err;
	return rc;
}

#if !SINCE(25, 5)
/* Called at shutdown before the jobs are saved for the last time. A controller that becomes a
 * standby soon forgets its shutdown, so the connection is ended here: its thread might look too
 * late. */
extern int select_p_state_save(char *dir_name)
{
	if (active && slurmctld_config.shutdown_time) {
		order_leave();
		link_leave();
	}
	return (*(stock_ops.state_save))(dir_name);
}
#endif

#if !SINCE(23, 2) /* later releases do not tell: the table is compared */
extern int select_p_update_node_config(int index)
{
	int rc = (*(stock_ops.update_node_config))(index);

	if (active)
		link_table_hint();
	return rc;
}
#endif

extern int select_p_job_test(job_record_t *job_ptr, bitstr_t *node_bitmap,
			     uint32_t min_nodes, uint32_t max_nodes,
			     uint32_t req_nodes, uint16_t mode,
			     list_t *preemptee_candidates,
			     list_t **preemptee_job_list JOB_TEST_TAIL_PARAMS)
{
	return overlay_job_test(job_ptr, node_bitmap, min_nodes, max_nodes,
				req_nodes, mode, preemptee_candidates,
				preemptee_job_list JOB_TEST_TAIL_ARGS);
}

/* Lock of the events being built; the operations run one at a time under slurmctld's job lock
 * anyway. */
static pthread_mutex_t event_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pktbuf event_buf;

static bool _wanted(job_record_t *job_ptr)
{
	return active && link_wants_events() && layout_has_job(job_ptr);
}

static bool _holds_nodes(job_record_t *job_ptr)
{
	return job_ptr->job_resrcs && job_ptr->job_resrcs->node_bitmap;
}

/* Report what the jobs hold now; `other` may be NULL. */
static void _tell(job_record_t *job_ptr, job_record_t *other, uint32_t cause)
{
	bool suspended = cause == PHX_CAUSE_SUSPEND ||
			 (cause != PHX_CAUSE_RESUME && state_job_suspended(job_ptr));
	int err = errno;

	pthread_mutex_lock(&event_lock);
	pktbuf_reset(&event_buf);
	if (_holds_nodes(job_ptr))
		(void) state_job(&event_buf, job_ptr, cause, suspended);
	if (other && layout_has_job(other) && _holds_nodes(other))
		(void) state_job(&event_buf, other, cause, state_job_suspended(other));
	link_events(&event_buf);
	pthread_mutex_unlock(&event_lock);
	errno = err;
}

/* Report a job that starts: here, not in job_begin(), stock counts what it takes and fills its
 * gres_list_alloc; also for recovered jobs at start, when nothing is sent until reconfigure(). An
 * error here need not stop the job, so it is reported as long as it runs. */
extern int select_p_select_nodeinfo_set(job_record_t *job_ptr)
{
	int rc = (*(stock_ops.select_nodeinfo_set))(job_ptr);

	if (active && layout_has_job(job_ptr) && IS_JOB_RUNNING(job_ptr)) {
		int err = errno;

		order_started(job_ptr);
		errno = err;
	}
	if (_wanted(job_ptr) && (IS_JOB_RUNNING(job_ptr) || IS_JOB_SUSPENDED(job_ptr)))
		_tell(job_ptr, NULL, PHX_CAUSE_BEGIN);
	return rc;
}

extern int select_p_job_fini(job_record_t *job_ptr)
{
	int rc = (*(stock_ops.job_fini))(job_ptr), err = errno;

	ends_drop(job_ptr->job_id);
	if (_wanted(job_ptr) && _holds_nodes(job_ptr)) {
		pthread_mutex_lock(&event_lock);
		pktbuf_reset(&event_buf);
		state_job_end(&event_buf, job_ptr);
		link_events(&event_buf);
		pthread_mutex_unlock(&event_lock);
	}
	errno = err;
	return rc;
}

extern int select_p_job_resized(job_record_t *job_ptr, node_record_t *node_ptr)
{
	int rc = (*(stock_ops.job_resized))(job_ptr, node_ptr);

	if (rc == SLURM_SUCCESS && _wanted(job_ptr))
		_tell(job_ptr, NULL, PHX_CAUSE_RESIZE);
	return rc;
}

/* Report the job that gave, then the one that took, so that no node is counted twice. */
extern int select_p_job_expand(job_record_t *from_job_ptr, job_record_t *to_job_ptr)
{
	int rc = (*(stock_ops.job_expand))(from_job_ptr, to_job_ptr);

	if (rc == SLURM_SUCCESS && _wanted(from_job_ptr))
		_tell(from_job_ptr, to_job_ptr, PHX_CAUSE_EXPAND);
	return rc;
}

#if SINCE(26, 5) /* a running job gives memory back */
extern void select_p_job_mem_reduce(job_record_t *job_ptr)
{
	(*(stock_ops.job_mem_reduce))(job_ptr);
	if (_wanted(job_ptr))
		_tell(job_ptr, NULL, PHX_CAUSE_RESIZE);
}
#endif

/* Report a suspension; gang scheduling (not indf_susp) leaves the cores with the job. */
extern int select_p_job_suspend(job_record_t *job_ptr, bool indf_susp)
{
	int rc = (*(stock_ops.job_suspend))(job_ptr, indf_susp);

	if (rc == SLURM_SUCCESS && indf_susp && _wanted(job_ptr))
		_tell(job_ptr, NULL, PHX_CAUSE_SUSPEND);
	return rc;
}

extern int select_p_job_resume(job_record_t *job_ptr, bool indf_susp)
{
	int rc = (*(stock_ops.job_resume))(job_ptr, indf_susp);

	if (rc == SLURM_SUCCESS && indf_susp && _wanted(job_ptr))
		_tell(job_ptr, NULL, PHX_CAUSE_RESUME);
	return rc;
}
