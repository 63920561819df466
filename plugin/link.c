/* SPDX-License-Identifier: GPL-2.0-or-later */
/* link.c - the overlay's thread: connects, sends the state, watches for changes; and the reports of
 * the operations. See link.h. */

#include "slurm_api.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "dump.h"
#include "inbox.h"
#include "layout.h"
#include "link_io.h"
#include "state.h"
#include "stats.h"
#include "thread.h"
#include "topology.h"
#include "witness.h"

#define DEFAULT_SOCKET "/run/phalanx/plugin.sock"
#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 2000u
#define WELCOME_MS 1000u      /* longest wait for WELCOME */
#define TICK_MS 100u          /* reads what nobody asked for */
#define STATS_MS 1000u
#define SAVE_MS 60000u
#define TABLE_MS 2000u        /* between comparisons of the node table */
#define SEND_STALL_MS 5000u   /* a sync that makes no progress */
#define IDLE_MS 1000u
#define SEND_BUFFER (1 << 20)
#define NS_PER_MS 1000000ull

/* ---- called by the operations */

static struct phx_hello hello;     /* io.lock */
static _Atomic uid_t slurm_uid;
static _Atomic bool usable;        /* slurmctld's structures are whole */
static _Atomic bool stopping;
static _Atomic bool table_hint;
static _Atomic bool ours = true;   /* the next state is sent for a change in
				    * slurmctld, not for the daemon */

/* ---- of the thread alone */

static struct thread thread = { .name = "thread" };
static bool inert;                 /* the self-check failed: for good */
static struct pktbuf sync_buf;
static struct state_info synced;
static time_t table_checked;       /* unix time */
static time_t node_seen, part_seen; /* slurmctld's last updates, then */
static uint32_t syncs_here;        /* on this connection */
static bool told_ejected;          /* the connection was given up for it */
static bool told_unwelcome;        /* the last connection got no WELCOME */
static time_t loaded;

/* ---- the thread */

static uint64_t _now_ms(void)
{
	return now_ns() / NS_PER_MS;
}

/* Sleep until woken, until `fd` has `events` (fd < 0: none) or time is up. */
static void _sleep(uint32_t ms, int fd, short events)
{
	struct pollfd p[2] = {
		{ .fd = io.wake_fd, .events = POLLIN },
		{ .fd = fd, .events = events },
	};
	uint64_t count;

	(void) poll(p, fd >= 0 ? 2 : 1, (int) ms);
	if (p[0].revents)
		(void) !read(io.wake_fd, &count, sizeof(count));
}

static bool _peer_is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && len == sizeof(peer) &&
	       (!peer.uid || peer.uid == atomic_load(&slurm_uid) || peer.uid == getuid() ||
		peer.uid == link_limits().uid);
}

/* RET a connected socket, or -1 */
static int _connect(void)
{
	const char *path = getenv("PHALANX_PLUGIN_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd, size = SEND_BUFFER;

	if (!path || !*path)
		path = DEFAULT_SOCKET;
	if (strlen(path) >= sizeof(addr.sun_path))
		return -1;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	(void) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (connect(fd, (struct sockaddr *) &addr, sizeof(addr))) {
		close(fd);
		return -1;
	}
	if (!_peer_is_ours(fd)) {
		error("phalanx: %s is served by a foreign user, not used", path);
		close(fd);
		return -1;
	}
	return fd;
}

static bool _running(void)
{
	enum link_state state = link_state();

	return !atomic_load(&stopping) && state != LINK_LOST && state != LINK_DOWN;
}

/* Send HELLO, wait for WELCOME. RET false if it did not come */
static bool _handshake(int fd)
{
	uint64_t until = _now_ms() + WELCOME_MS, now;
	struct packet p;
	int err;

	pthread_mutex_lock(&io.lock);
	io.sock = fd;
	io.last_seq = 0;
	syncs_here = 0;
	io_set_state(LINK_HELLO);
	err = io_send_locked(&hello.hdr);
	if (err)
		io_lose_locked("sending HELLO failed", err);
	pthread_mutex_unlock(&io.lock);

	while (_running() && (now = _now_ms()) < until) {
		_sleep((uint32_t) (until - now), fd, POLLIN);
		pthread_mutex_lock(&io.rx_lock);
		err = link_receive(&p);
		pthread_mutex_unlock(&io.rx_lock);
		if (!err) {
			pthread_mutex_lock(&io.lock);
			if (link_state() == LINK_HELLO)
				io_set_state(LINK_STALE);
			pthread_mutex_unlock(&io.lock);
			stat_add(&overlay_stats.connects, 1);
			return true;
		}
	}
	link_lose("no WELCOME came", ETIMEDOUT);
	return false;
}

/* Send all packets of a sync or io.backlog, waiting for room.
 * RET false if the sync was overtaken or the connection lost */
static bool _send_all(struct pktbuf *b)
{
	uint64_t progress = _now_ms();
	size_t at = 0;

	while (at < b->len) {
		struct phx_hdr *hdr = (struct phx_hdr *) (b->data + at);
		int err = ECANCELED;

		pthread_mutex_lock(&io.lock);
		if (link_state() == LINK_SYNCING && !atomic_load(&stopping)) {
			err = io_send_locked(hdr);
			if (err && err != EAGAIN)
				io_lose_locked("sending the state failed", err);
		}
		pthread_mutex_unlock(&io.lock);
		if (!err) {
			at += hdr->length;
			progress = _now_ms();
			io_count_event(hdr);
		} else if (err != EAGAIN) {
			return false;
		} else if (_now_ms() - progress > SEND_STALL_MS) {
			link_lose("the daemon does not read", ETIMEDOUT);
			return false;
		} else {
			_sleep(TICK_MS, io.sock, POLLOUT);
			io_drain();
		}
	}
	return true;
}

/* Send STATS, even where no state is sent: they say why not. */
static void _send_stats(void)
{
	struct phx_stats s;
	enum link_state state;

	stats_fill(&s);
	pthread_mutex_lock(&io.lock);
	state = link_state();
	/* The next one says the same and more. */
	if (state == LINK_STALE || state == LINK_READY)
		(void) io_send_locked(&s.hdr);
	pthread_mutex_unlock(&io.lock);
}

/* Stop for good, because slurmctld's structures are others; the last packet says so. */
static void _become_inert(void)
{
	inert = true;
	stat_add(&overlay_stats.reasons[PHX_R_LAYOUT], 1);
	_send_stats();
	link_lose("the self-check failed", EPROTO);
}

/* Note the node table; under slurmctld's locks. */
static void _table_seen(void)
{
	table_checked = time(NULL);
	node_seen = last_node_update;
	part_seen = last_part_update;
}

/* Build a sync under slurmctld's READ locks: later changes go to io.backlog. */
static bool _build_sync(void)
{
	slurmctld_lock_t locks = {
		.conf = READ_LOCK,
		.job = READ_LOCK,
		.node = READ_LOCK,
		.part = READ_LOCK,
	};
	const char *wrong = NULL;
	bool ok = false, mine = false;

	pktbuf_reset(&sync_buf);
	lock_slurmctld(locks);
	if (atomic_load(&usable))
		wrong = layout_check();
	if (atomic_load(&usable) && !wrong) {
		topology_refresh();
		pthread_mutex_lock(&io.lock);
		mine = link_state() == LINK_STALE;
		if (mine) {
			pktbuf_reset(&io.backlog);
			io_set_state(LINK_SYNCING);
		}
		pthread_mutex_unlock(&io.lock);
		_table_seen();
		atomic_store(&table_hint, false);
		ok = mine && state_build(&sync_buf, &synced);
		wrong = layout_wrong();
	}
	unlock_slurmctld(locks);

	if (wrong) {
		if (!layout_wrong()) /* else it was said */
			error("phalanx: %s; this overlay stays inert", wrong);
		_become_inert();
	} else if (mine && !ok) {
		link_lose("no memory to send the state", ENOMEM);
	}
	return ok;
}

/* Send events of the sync's time, until none is left. RET true if READY */
static bool _send_backlog(void)
{
	struct pktbuf late = {0};
	bool ready = false;

	while (!ready) {
		struct pktbuf swap;

		pthread_mutex_lock(&io.lock);
		if (link_state() != LINK_SYNCING) {
			pthread_mutex_unlock(&io.lock);
			break;
		}
		ready = !io.backlog.len;
		if (ready)
			io_set_state(LINK_READY);
		swap = late;
		late = io.backlog;
		io.backlog = swap;
		pktbuf_reset(&io.backlog);
		pthread_mutex_unlock(&io.lock);
		if (!_send_all(&late))
			break;
	}
	pktbuf_free(&late);
	return ready;
}

static void _sync(void)
{
	struct link_limits limits = link_limits();
	uint64_t start = _now_ms();
	bool sent;

	breaker_sync(&overlay_breaker, now_ns(), !atomic_exchange(&ours, false), &limits.breaker);
	if (!_build_sync())
		return;
	if (syncs_here++)
		stat_add(&overlay_stats.resyncs, 1);
	sent = _send_all(&sync_buf);
	pktbuf_free(&sync_buf); /* megabytes of it, seldom needed */
	if (sent && _send_backlog())
		info("phalanx: synced %u nodes, %u jobs in %u ms",
		     synced.nodes, synced.jobs,
		     (uint32_t) (_now_ms() - start));
}

/* Log what the breaker did since the last call, and write a file about it. */
static void _log_breaker(void)
{
	static uint64_t opens_seen, crossings_seen, ejections_seen;
	static bool open_seen;
	struct breaker *b = &overlay_breaker;
	uint64_t opens = atomic_load(&b->opens), crossings = 0, ejections;
	bool closed = atomic_load(&b->state) == BREAKER_CLOSED;
	char head[200], path[PATH_MAX];
	const char *why;
	int err;

	if (opens == opens_seen && closed == !open_seen)
		return;
	pthread_mutex_lock(&b->lock);
	for (uint32_t i = 0; i < PHX_BREACHES; i++)
		crossings += b->breaches[i];
	ejections = b->ejections;
	why = breaker_word(b->breach);
	pthread_mutex_unlock(&b->lock);
	if (crossings != crossings_seen) {
		bool out = ejections != ejections_seen;

		(void) snprintf(head, sizeof(head),
				"phalanx: breaker opened, Slurm decides alone%s: too much of %s",
				out ? " until slurm.conf says otherwise (`phalanx daemon enable`)" :
				      "", why);
		err = dump_write(head, path);
		if (out)
			error("%s; it opened too often, %s%s", head,
			      err ? "no file: " : "see ",
			      err ? strerror(err) : path);
		else
			info("%s", head);
	}
	if ((open_seen || opens != opens_seen) && closed) {
		info("phalanx: breaker closed");
		told_ejected = false;
	}
	opens_seen = opens;
	crossings_seen = crossings;
	ejections_seen = ejections;
	open_seen = !closed;
}

/* Compare the node table: nodes register, change and go without a call of any operation. */
static void _check_table(void)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .node = READ_LOCK,
				   .part = READ_LOCK };
	bool hint = atomic_exchange(&table_hint, false), changed = false;

	lock_slurmctld(locks);
	/* A change in the second of the last look may have come after it.  A
	 * clock that was set back gives changes earlier times than that. */
	if (atomic_load(&usable) &&
	    (hint || last_node_update != node_seen ||
	     last_part_update != part_seen || MAX(node_seen, part_seen) >= table_checked)) {
		_table_seen();
		topology_refresh();
		changed = state_table_hash() != synced.table_hash;
	}
	unlock_slurmctld(locks);
	if (!changed)
		return;
	atomic_store(&ours, true);
	pthread_mutex_lock(&io.lock);
	io_stale_locked();
	pthread_mutex_unlock(&io.lock);
}

/* Serve the connection from WELCOME until it is lost. */
static void _serve(void)
{
	uint64_t stats_at = 0, save_at = 0, table_at = _now_ms() + TABLE_MS, now;

	while (_running()) {
		if (slurmctld_config.shutdown_time) {
			link_leave();
			break;
		}
		if (layout_wrong()) {
			_become_inert();
			break;
		}
		if (breaker_is_ejected(&overlay_breaker) && !told_ejected) {
			/* The next connection gets no state, and so the daemon keeps none. */
			told_ejected = true;
			link_lose("ejected", 0);
			break;
		}
		if (link_state() == LINK_STALE && atomic_load(&usable) &&
		    !breaker_sync_at(&overlay_breaker, now_ns(), !atomic_load(&ours)))
			_sync();
		else /* in READY an answer must not wake this thread */
			_sleep(TICK_MS, link_state() == LINK_READY ? -1 : io.sock, POLLIN);
		io_flush();
		io_drain();
		_log_breaker();
		now = _now_ms();
		if (now >= stats_at) {
			_send_stats();
			stats_at = now + STATS_MS;
		}
		if (now >= save_at || witness_is_urgent()) {
			witness_save(now_ns());
			save_at = now + SAVE_MS;
		}
		if (link_state() == LINK_READY && now >= table_at) {
			_check_table();
			table_at = _now_ms() + TABLE_MS;
		}
	}
}

static void _disconnect(bool welcomed)
{
	const char *why;
	int err;

	pthread_mutex_lock(&io.rx_lock);
	pthread_mutex_lock(&io.lock);
	why = link_state() == LINK_LOST ? io.lost_why : "the overlay stops";
	err = link_state() == LINK_LOST ? io.lost_err : 0;
	(void) close(io.sock);
	io.sock = -1;
	pktbuf_reset(&io.backlog);
	pktbuf_reset(&io.posted);
	io_set_state(LINK_DOWN);
	pthread_mutex_unlock(&io.lock);
	inbox_forget();
	pthread_mutex_unlock(&io.rx_lock);
	witness_save(now_ns());
	if (!welcomed && !told_unwelcome)
		info("phalanx: phalanxd does not take this overlay: %s; see `phalanx doctor`", why);
	told_unwelcome = !welcomed;
	if (!welcomed)
		debug("phalanx: not connected: %s", why);
	else if (err == EBADMSG)
		info("phalanx: connection lost: malformed message, expected %s", why);
	else if (err)
		info("phalanx: connection lost: %s: %s", why, strerror(err));
	else
		info("phalanx: connection lost: %s", why);
}

static void *_run(void *arg)
{
	uint32_t backoff = BACKOFF_MIN_MS;
	unsigned int seed = (unsigned int) (getpid() ^ time(NULL));

	(void) arg;
	(void) prctl(PR_SET_NAME, "phalanx", 0, 0, 0);
	while (!atomic_load(&stopping)) {
		bool welcomed;
		int fd;

		_log_breaker();
		if (inert || !atomic_load(&usable) || slurmctld_config.shutdown_time) {
			_sleep(IDLE_MS, -1, 0);
			continue;
		}
		/* The saver does not run in a standby, nor before all is read;
		 * the first jobs come right after */
		if (!slurmctld_config.thread_id_save) {
			_sleep(TICK_MS, -1, 0);
			continue;
		}
		fd = _connect();
		if (fd >= 0) {
			welcomed = _handshake(fd);
			if (welcomed) {
				info("phalanx: connected");
				_serve();
			}
			_disconnect(welcomed);
		}
		if (atomic_exchange(&io.proved, false))
			backoff = BACKOFF_MIN_MS;
		/* The loss woke this thread, which knows it: without this
		 * a daemon that closes at once is met again at once. */
		_sleep(0, -1, 0);
		if (atomic_load(&stopping))
			break;
		/* Jitter of a quarter, so that daemons are not met in step */
		_sleep(backoff + (uint32_t) rand_r(&seed) % (backoff / 4), -1, 0);
		backoff = MIN(2 * backoff, BACKOFF_MAX_MS);
	}
	return NULL;
}

/* ---- called by the operations */

static void _start(void)
{
	int err;

	if (thread.started)
		return;
	loaded = time(NULL);
	io.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (io.wake_fd < 0) {
		error("phalanx: eventfd: %m; no connection is made");
		return;
	}
	atomic_store(&stopping, false);
	err = thread_start(&thread, _run);
	if (err) {
		error("phalanx: pthread_create: %s; no connection is made", strerror(err));
		(void) close(io.wake_fd);
		io.wake_fd = -1;
		return;
	}
}

extern void link_state_void(void)
{
	_start();
	atomic_store(&usable, false);
	pthread_mutex_lock(&io.lock);
	io_stale_locked();
	pthread_mutex_unlock(&io.lock);
}

extern void link_state_whole(void)
{
	struct phx_hello h = { .hdr = PHX_HDR_OF(PHX_HELLO, sizeof(h)) };
	bool rebuilt = !atomic_load(&usable);

	topology_stale();
	state_hello(&h, loaded);
	atomic_store(&slurm_uid, slurm_conf.slurm_user_id);
	pthread_mutex_lock(&io.lock);
	if (rebuilt || memcmp(&hello, &h, sizeof(h))) {
		atomic_store(&ours, true);
		hello = h;
		io_stale_locked();
	}
	pthread_mutex_unlock(&io.lock);
	/* Of a partition that is changed Slurm tells the same, but nodes and jobs stay. */
	link_table_hint();
	atomic_store(&usable, true);
	io_wake();
}

extern void link_leave(void)
{
	link_lose("slurmctld shuts down", 0);
}

extern void link_table_hint(void)
{
	atomic_store(&table_hint, true);
}

extern bool link_stop(void)
{
	if (!thread.started)
		return true;
	atomic_store(&stopping, true);
	io_wake();
	if (!thread_join(&thread))
		return false;
	(void) close(io.wake_fd);
	io.wake_fd = -1;
	pktbuf_free(&io.backlog);
	pktbuf_free(&sync_buf);
	return true;
}
