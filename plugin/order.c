/* SPDX-License-Identifier: GPL-2.0-or-later */
/* order.c - see order.h. */

#include "order_pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link.h"
#include "thread.h"

#define LEDGER_FILE "phalanx_order"
#define JOBS_FILE "job_state" /* where slurmctld saves its jobs */
#define TICK_MS 250u
#define IDLE_MS 1000u
#define QUEUE_MS 1000u        /* between two reports */
#define SAVE_MS 5000u         /* between two saves that are asked for */
#define QUEUE_PART 256u       /* jobs in one part of a report */
#define SEND_TRIES 500        /* of one part */
#define SEND_REST_US 1000
#define READ_SHARE 100u       /* inverse share of the time for READ locks */
#define LOOK_PAUSE_MAX_NS 1000000000ull
#define SCAN_PAUSE_MAX_NS 10000000000ull
#define NS_PER_MS 1000000ull

static struct thread thread = { .name = "order thread" };
static _Atomic bool stopping;
static _Atomic bool loaded;      /* the ledger's file was looked at */

/* ---- of the thread alone */

static bool unread;              /* the file could not be read, and is tried again */
static bool refused_file;        /* and is not to be touched: for good */
static struct inbox_set wanted;
static struct order_queue queue;
static uint64_t queue_at, save_at; /* ms: not before */
static uint64_t look_at, scan_at;  /* ns: not before */
static bool save_seen;           /* one that is not counted yet */
static uint32_t save_scans;      /* order.scans that it takes to count one */
static time_t told;              /* the walk that was reported; 0: none */
static struct stat saved;        /* the jobs' file when last seen */

static uint64_t _now_ms(void)
{
	return now_ns() / NS_PER_MS;
}

static void _path(char *path)
{
	pthread_mutex_lock(&order.lock);
	strcpy(path, order.path);
	pthread_mutex_unlock(&order.lock);
}

static void _load(void)
{
	struct ledger fresh = {0};
	bool was = order.broken;
	char path[PATH_MAX];
	const char *why = NULL;
	int err;

	/* Without the lock, for which slurmctld waits: the file may be on a
	 * server that does not answer. */
	_path(path);
	err = *path ? ledger_load(&fresh, path, &why) : ENOENT;
	/* What the file is stays so; what the system says of it may pass. */
	if (err && err != ENOENT && err != ELOOP && !why) {
		ledger_free(&fresh);
		if (!unread)
			error("phalanx: %s: %s; the order of starts is Slurm's until it is read",
			      path, strerror(err));
		unread = true;
		return;
	}
	unread = false;
	pthread_mutex_lock(&order.lock);
	ledger_free(&order.ledger);
	order.ledger = fresh;
	atomic_store(&order.entries, order.ledger.count);
	order.dirty = !err; /* it may not be on the disk yet: written anew before any value */
	pthread_mutex_unlock(&order.lock);
	/* A file that cannot be opened or read now may be in a while. */
	order.broken = err && err != ENOENT;
	atomic_store(&loaded, !order.broken || why);
	if (order.broken && !why && was)
		return;
	if (!pass_symbols())
		info("phalanx: slurmctld lacks a function, the order of starts is Slurm's");
	if (fresh.dropped)
		error("phalanx: %u jobs may have a TimeMin of an earlier version's; see upgrade.md",
		      fresh.dropped);
	if (!err) {
		info("phalanx: removing what is left of %u earlier deltas", order.ledger.count);
	} else if (err != ENOENT) {
		refused_file = why;
		error("phalanx: %s: %s%s; not used, the order of starts is "
		      "Slurm's until it %s",
		      order.path, why ? "expected " : "", why ? why : strerror(err),
		      why ? "is removed and slurmctld restarted" : "can be read");
	}
}

/* Count the saves of the jobs; ask for a save while the ledger waits for one. */
static void _watch_saves(void)
{
	char path[PATH_MAX];
	struct stat st;
	bool waits = false;

	_path(path);
	if (*path) { /* JOBS_FILE is the shorter name */
		strcpy(strrchr(path, '/') + 1, JOBS_FILE);
		if (!stat(path, &st) &&
		    (st.st_ino != saved.st_ino ||
		     st.st_mtim.tv_sec != saved.st_mtim.tv_sec ||
		     st.st_mtim.tv_nsec != saved.st_mtim.tv_nsec)) {
			save_seen = save_seen || saved.st_ino;
			saved = st;
		}
	}
	pthread_mutex_lock(&order.lock);
	/* Between two that count all jobs are looked at: what was split off a
	 * job is known before that one is forgotten. */
	if (save_seen && (int32_t) (order.scans - save_scans) >= 0) {
		save_seen = false;
		save_scans = order.scans + 1 + scan_under_way();
		order.saves++;
	}
	if (ledger_prune(&order.ledger, order.saves))
		order.dirty = true;
	for (uint32_t i = 0; i < order.ledger.count && !waits; i++)
		waits = order.ledger.entries[i].state == LEDGER_OFF ||
			order.ledger.entries[i].count > 1;
	atomic_store(&order.entries, order.ledger.count);
	pthread_mutex_unlock(&order.lock);
	if (waits && _now_ms() >= save_at && order_api.schedule_job_save) {
		save_at = _now_ms() + SAVE_MS;
		order_api.schedule_job_save();
	}
}

/* ---- telling the daemon */

static void _fill_head(struct phx_queue *m, uint32_t state)
{
	stat_copy(m, &order.counts, sizeof(*m));
	m->generation = wanted.generation;
	m->state = state;
	pthread_mutex_lock(&order.lock);
	m->active = ledger_count(&order.ledger, LEDGER_ON);
	pthread_mutex_unlock(&order.lock);
}

/* Send a part after the daemon has read all before it, so that no ask and no event finds the socket
 * full. RET false if the connection does not take it */
static bool _send(struct phx_queue *m)
{
	for (int i = 0; i < SEND_TRIES; i++) {
		int err = link_idle() ? link_send(&m->hdr) : EAGAIN;

		if (err != EAGAIN)
			return !err;
		(void) usleep(SEND_REST_US);
	}
	return false;
}

/* Report the queue. RET false if a part was not sent */
static bool _report(uint32_t state, bool all)
{
	static union {
		struct phx_queue head;
		uint8_t bytes[sizeof(struct phx_queue) + QUEUE_PART * sizeof(struct phx_queued)];
	} m;
	uint32_t at = 0, count;

	_fill_head(&m.head, state);
	do {
		count = all ? MIN(queue.count - at, QUEUE_PART) : 0;
		m.head.count = count;
		m.head.flags = (at ? 0 : PHX_PART_FIRST) |
			       (at + count < queue.count ? 0 : PHX_PART_LAST);
		if (!all)
			m.head.flags = PHX_PART_SAME;
		m.head.hdr = PHX_HDR_OF(PHX_QUEUE, sizeof(m.head) + count * sizeof(*queue.jobs));
		if (count)
			memcpy(m.bytes + sizeof(m.head), queue.jobs + at,
			       count * sizeof(*queue.jobs));
		if (!_send(&m.head))
			return false;
		at += count;
	} while (all && at < queue.count);
	return true;
}

/* ---- the thread */

/* RET true while the connection stands and the daemon wants an order */
static bool _asked(void)
{
	enum link_state state = link_state();

	return (link_flags() & PHX_W_ORDER) &&
	       !breaker_is_ejected(&overlay_breaker) &&
	       (state == LINK_READY || state == LINK_SYNCING || state == LINK_STALE);
}

/* Bound the deltas as slurm.conf does.
 * RET whether looking at them has a budget; that they end needs none */
static bool _may_look(void)
{
	struct link_limits limits = link_limits();

	for (uint32_t i = 0; i < wanted.count; i++)
		wanted.deltas[i].delta = MIN(wanted.deltas[i].delta, (int32_t) limits.order_max);
	return !wanted.count || breaker_spares(&overlay_breaker, now_ns(), &limits.breaker);
}

/* RET when locks that were held for `held_ns` may be taken again */
static uint64_t _rested(uint64_t held_ns, uint64_t most)
{
	return now_ns() + MIN(held_ns * READ_SHARE, most);
}

static void _tell(enum phx_order_state state)
{
	if (link_state() != LINK_READY || _now_ms() < queue_at)
		return;
	queue_at = _now_ms() + QUEUE_MS;
	told = _report(state, queue.taken != told) ? queue.taken : 0;
}

/* RET true if the file may be replaced */
static bool _file_known(void)
{
	return atomic_load(&loaded) && !refused_file;
}

static void _turn(void)
{
	static enum phx_order_state state = PHX_O_OFF;
	static uint64_t connects;
	bool asked = _asked(), may;

	if (connects != stat_get(&overlay_stats.connects))
		told = 0; /* another daemon: it knows nothing yet */
	connects = stat_get(&overlay_stats.connects);
	if (!asked && !atomic_load(&order.entries))
		return;
	inbox_get(&wanted, now_ns());
	if (!asked)
		wanted.count = 0;
	_watch_saves();
	may = _may_look();
	if (may && now_ns() >= scan_at)
		scan_at = _rested(scan_some(&queue, asked && link_state() ==
						    LINK_READY),
				  SCAN_PAUSE_MAX_NS);
	if (may && now_ns() >= look_at) {
		look_at = _rested(pass_look(&wanted, &state), LOOK_PAUSE_MAX_NS);
		if (_file_known() && pass_write())
			inbox_wake();
	}
	if (asked)
		_tell(state);
}

static void *_run(void *arg)
{
	(void) arg;
	(void) prctl(PR_SET_NAME, "phalanx-order", 0, 0, 0);
	while (!atomic_load(&stopping)) {
		bool busy = atomic_load(&order.entries) || _asked();

		inbox_wait(busy ? TICK_MS : IDLE_MS);
		if (atomic_load(&stopping) || !pass_may())
			continue;
		if (!atomic_load(&loaded))
			_load();
		if (atomic_load(&loaded))
			_turn();
		if (_file_known()) /* also where no entry is left: it may not go at once */
			pass_store();
	}
	return NULL;
}

static void _start(void)
{
	int err;

	if (thread.started)
		return;
	atomic_store(&stopping, false);
	err = thread_start(&thread, _run);
	if (err)
		error("phalanx: pthread_create: %s; the order of starts is Slurm's", strerror(err));
}

/* ---- called by the operations */

extern void order_void(void)
{
	atomic_store(&order.whole, false);
	inbox_forget();
}

extern void order_whole(void)
{
	const char *dir = slurm_conf.state_save_location;
	int len;

	pthread_mutex_lock(&order.lock);
	len = snprintf(order.path, sizeof(order.path), "%s/" LEDGER_FILE, dir ? dir : "");
	if (!dir || len < 0 || (size_t) len >= sizeof(order.path))
		order.path[0] = '\0';
	pthread_mutex_unlock(&order.lock);
	atomic_store(&order.whole, true);
	_start();
}

/* Restore the field and the priorities computed from it. */
static void _take_back(job_record_t *job_ptr, const struct ledger_entry *e)
{
	int64_t delta = (int64_t) e->written - e->base;
	uint32_t *priorities;
	int count = pass_priorities(job_ptr, &priorities);

	job_ptr->site_factor = e->base;
	job_ptr->priority = (uint32_t) MAX(job_ptr->priority - delta, 1);
	for (int i = 0; i < count; i++)
		priorities[i] = (uint32_t) MAX(priorities[i] - delta, 1);
}

/* Called before the job runs, so that a requeued job comes back as it was, and before an array
 * record is split, so that neither part has a value of the overlay's. The next turn gives the rest
 * of the array its delta again. */
extern void order_started(job_record_t *job_ptr)
{
	struct ledger_entry *e;

	if (!atomic_load(&order.entries))
		return;
	pthread_mutex_lock(&order.lock);
	e = scan_adopt(job_ptr);
	atomic_store(&order.entries, order.ledger.count);
	if (e && e->state == LEDGER_ON) {
		if (job_ptr->site_factor == e->written)
			_take_back(job_ptr, e);
		e->state = LEDGER_OFF;
		e->saves = order.saves;
		e->recalc = job_ptr->array_recs != NULL;
		stat_add(&order.counts.started, 1);
	}
	pthread_mutex_unlock(&order.lock);
	inbox_wake();
}

static void _restore_all(void)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .job = WRITE_LOCK,
				   .node = READ_LOCK, .part = READ_LOCK };

	lock_slurmctld(locks);
	if (atomic_load(&order.whole) && job_list && order_api.set_job_prio)
		pass_restore_all();
	unlock_slurmctld(locks);
	if (order_api.schedule_job_save)
		order_api.schedule_job_save();
}

/* Unload the ledger: another controller may use the file meanwhile, so it is read anew when this
 * one works again (as after a reconfigure that fails, since 23.11). */
static void _unload(void)
{
	pthread_mutex_lock(&order.lock);
	pass_forget();
	pthread_mutex_unlock(&order.lock);
	atomic_store(&loaded, false);
}

extern void order_leave(void)
{
	if (!atomic_load(&order.entries))
		return;
	_restore_all();
	_unload();
	info("phalanx: all deltas removed before the state is saved");
}

extern bool order_stop(void)
{
	if (!thread.started)
		return true;
	atomic_store(&stopping, true);
	inbox_wake();
	if (!thread_join(&thread))
		return false;
	/* At a shutdown the priority plugin is no more. */
	if (pass_may() && atomic_load(&order.entries))
		_restore_all();
	_unload();
	scan_stop();
	free(queue.jobs);
	queue = (struct order_queue) {0};
	return true;
}
