/* SPDX-License-Identifier: GPL-2.0-or-later */
/* link.c - see link.h. */

#include "slurm_api.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "state.h"
#include "stats.h"

#define DEFAULT_SOCKET "/run/phalanx/plugin.sock"
#define BACKOFF_MIN_MS 100u
#define BACKOFF_MAX_MS 2000u
#define WELCOME_MS 1000u      /* longest wait for WELCOME */
#define TICK_MS 100u          /* reads what nobody asked for */
#define STATS_MS 1000u
#define TABLE_MS 2000u        /* between comparisons of the node table */
#define SEND_STALL_MS 5000u   /* a sync that makes no progress */
#define STOP_S 5              /* longest wait for the thread to end */
#define IDLE_MS 1000u
#define BACKLOG_MAX (8u << 20) /* bytes of events during a sync */
#define SEND_BUFFER (1 << 20)
#define NS_PER_MS 1000000ull

/* ---- shared state */

static pthread_mutex_t rx_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t io_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint32_t cur_state; /* enum link_state; written under io */
static int sock = -1;              /* closed under rx and io */
static uint64_t last_seq;          /* of the packets sent; io */
static const char *lost_why;       /* io */
static int lost_err;               /* io */
static struct pktbuf backlog;      /* io */
static struct phx_hello hello;     /* io */
static uid_t slurm_uid;            /* io */

static _Atomic bool usable;        /* slurmctld's structures are whole */
static _Atomic bool stopping;
static _Atomic bool proved;        /* a valid answer came */
static _Atomic bool table_hint;
static _Atomic uint32_t lim_deadline_us, lim_misses, lim_open_ms, lim_flags;

static uint8_t rx_buf[PHX_PACKET_MAX] __attribute__((aligned(8))); /* rx */

/* ---- of the thread alone */

static pthread_t thread;
static bool thread_started;
static bool inert;                 /* the self-check failed: for good */
static int wake_fd = -1;
static struct pktbuf sync_buf;
static struct state_info synced;
static time_t table_checked;       /* unix time */
static uint32_t syncs_here;        /* on this connection */
static time_t loaded;

static void _set_state(enum link_state state)
{
	atomic_store_explicit(&cur_state, state, memory_order_release);
}

extern enum link_state link_state(void)
{
	return atomic_load_explicit(&cur_state, memory_order_acquire);
}

extern struct link_limits link_limits(void)
{
	return (struct link_limits) {
		.deadline_us = atomic_load(&lim_deadline_us),
		.breaker_misses = atomic_load(&lim_misses),
		.breaker_open_ms = atomic_load(&lim_open_ms),
		.flags = atomic_load(&lim_flags),
	};
}

static void _set_limits(const struct phx_welcome *w)
{
	atomic_store(&lim_deadline_us, w->deadline_us);
	atomic_store(&lim_misses, w->breaker_misses);
	atomic_store(&lim_open_ms, w->breaker_open_ms);
	atomic_store(&lim_flags, w->flags);
}

static void _wake(void)
{
	uint64_t one = 1;

	if (wake_fd >= 0)
		(void) !write(wake_fd, &one, sizeof(one));
}

static void _lose_locked(const char *why, int err)
{
	enum link_state state = link_state();

	if (state == LINK_DOWN || state == LINK_LOST)
		return;
	lost_why = why;
	lost_err = err;
	_set_state(LINK_LOST);
	(void) shutdown(sock, SHUT_RDWR);
	_wake();
}

extern void link_lose(const char *why, int err)
{
	pthread_mutex_lock(&io_lock);
	_lose_locked(why, err);
	pthread_mutex_unlock(&io_lock);
}

extern void link_proved(void)
{
	atomic_store_explicit(&proved, true, memory_order_relaxed);
}

/* From READY or SYNCING back to where everything has to be sent. */
static void _stale_locked(void)
{
	enum link_state state = link_state();

	if (state != LINK_READY && state != LINK_SYNCING)
		return;
	_set_state(LINK_STALE);
	_wake();
}

/* ---- sending */

/* A number is used only if its packet left. RET 0 or an errno value */
static int _send_locked(struct phx_hdr *hdr)
{
	ssize_t n;

	hdr->seq = last_seq + 1;
	do {
		n = send(sock, hdr, hdr->length, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t) hdr->length) {
		last_seq++;
		return 0;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK ||
		      errno == ENOBUFS))
		return EAGAIN;
	return n < 0 ? errno : EIO;
}

static void _count_event(const struct phx_hdr *hdr)
{
	if (hdr->type == PHX_JOB || hdr->type == PHX_JOB_END)
		stat_add(&overlay_stats.events, 1);
}

extern int link_send(struct phx_hdr *hdr)
{
	int err = ENOTCONN;

	pthread_mutex_lock(&io_lock);
	if (link_state() == LINK_READY) {
		err = _send_locked(hdr);
		if (err && err != EAGAIN)
			_lose_locked("sending failed", err);
	}
	pthread_mutex_unlock(&io_lock);
	return err;
}

extern bool link_wants_events(void)
{
	enum link_state state = link_state();

	return state == LINK_READY || state == LINK_SYNCING;
}

static void _send_events_locked(const struct pktbuf *events)
{
	size_t at = 0;
	int err = 0;

	while (at < events->len && !err) {
		struct phx_hdr *hdr = (struct phx_hdr *) (events->data + at);

		err = _send_locked(hdr);
		if (!err)
			_count_event(hdr);
		at += hdr->length;
	}
	if (err == EAGAIN) /* the daemon is behind: it gets all of it anew */
		_stale_locked();
	else if (err)
		_lose_locked("sending an event failed", err);
}

extern void link_events(const struct pktbuf *events)
{
	pthread_mutex_lock(&io_lock);
	switch (link_state()) {
	case LINK_READY:
		if (events->failed)
			_stale_locked();
		else
			_send_events_locked(events);
		break;
	case LINK_SYNCING:
		if (backlog.len + events->len > BACKLOG_MAX ||
		    !pktbuf_append(&backlog, events))
			_stale_locked();
		break;
	default: /* the sync to come carries it */
		break;
	}
	pthread_mutex_unlock(&io_lock);
}

/* ---- receiving */

extern bool link_rx_begin(uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t) (deadline_ns / 1000000000ull),
		.tv_nsec = (long) (deadline_ns % 1000000000ull),
	};

	return !pthread_mutex_clocklock(&rx_lock, CLOCK_MONOTONIC, &until);
}

extern void link_rx_end(void)
{
	pthread_mutex_unlock(&rx_lock);
}

extern bool link_wait_rx(uint64_t deadline_ns)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	uint64_t now = now_ns();
	struct timespec left;

	if (now >= deadline_ns)
		return false;
	left.tv_sec = (time_t) ((deadline_ns - now) / 1000000000ull);
	left.tv_nsec = (long) ((deadline_ns - now) % 1000000000ull);
	/* Interrupted or ready: the caller tries to receive either way. */
	return ppoll(&p, 1, &left, NULL) != 0;
}

static int _handle(struct packet *p)
{
	bool early = link_state() == LINK_HELLO;

	switch (p->kind) {
	case PACKET_LIMITS:
		if (early != (p->type == PHX_WELCOME)) {
			p->why = "WELCOME first, CONFIG later";
			return EBADMSG;
		}
		_set_limits(&p->welcome);
		return 0;
	case PACKET_RESYNC:
		pthread_mutex_lock(&io_lock);
		_stale_locked();
		pthread_mutex_unlock(&io_lock);
		return early ? EBADMSG : 0;
	case PACKET_ANSWER:
		return early ? EBADMSG : 0;
	default:
		return EBADMSG;
	}
}

extern int link_receive(struct packet *p)
{
	ssize_t n;
	int err;

	do { /* MSG_TRUNC: the true length, so that a longer one is seen */
		n = recv(sock, rx_buf, sizeof(rx_buf),
			 MSG_DONTWAIT | MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return EAGAIN;
	if (n <= 0) {
		err = n ? errno : ECONNRESET;
		link_lose("the daemon closed the connection", err);
		return err;
	}
	if ((size_t) n > sizeof(rx_buf)) {
		link_lose("a packet is longer than the maximum", EMSGSIZE);
		return EBADMSG;
	}
	packet_parse(rx_buf, (size_t) n, p);
	if (_handle(p)) {
		link_lose(p->why ? p->why : "a message out of turn", EBADMSG);
		return EBADMSG;
	}
	return 0;
}

static uint64_t _last_seq(void)
{
	uint64_t seq;

	pthread_mutex_lock(&io_lock);
	seq = last_seq;
	pthread_mutex_unlock(&io_lock);
	return seq;
}

/* Read what came without being asked for; an ANSWER here is a late one. */
static void _drain(void)
{
	struct packet p;

	if (pthread_mutex_trylock(&rx_lock))
		return; /* an ask is under way and reads by itself */
	for (int i = 0; i < 64 && sock >= 0; i++) {
		if (link_receive(&p))
			break;
		if (p.kind != PACKET_ANSWER)
			continue;
		if (p.answer.hdr.seq > _last_seq()) {
			link_lose("an ANSWER to an ask that was made",
				  EBADMSG);
			break;
		}
		stat_add(&overlay_stats.late_answers, 1);
	}
	pthread_mutex_unlock(&rx_lock);
}

/* ---- the thread */

static uint64_t _now_ms(void)
{
	return now_ns() / NS_PER_MS;
}

/* Sleep until woken, until `fd` has `events` (fd < 0: none) or time is up. */
static void _sleep(uint32_t ms, int fd, short events)
{
	struct pollfd p[2] = {
		{ .fd = wake_fd, .events = POLLIN },
		{ .fd = fd, .events = events },
	};
	uint64_t count;

	(void) poll(p, fd >= 0 ? 2 : 1, (int) ms);
	if (p[0].revents)
		(void) !read(wake_fd, &count, sizeof(count));
}

static bool _peer_is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	bool ok;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) ||
	    len != sizeof(peer))
		return false;
	pthread_mutex_lock(&io_lock);
	ok = peer.uid == 0 || peer.uid == slurm_uid || peer.uid == getuid();
	pthread_mutex_unlock(&io_lock);
	return ok;
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
		error("phalanx: %s is served by a foreign user, not used",
		      path);
		close(fd);
		return -1;
	}
	return fd;
}

static bool _running(void)
{
	enum link_state state = link_state();

	return !atomic_load(&stopping) && state != LINK_LOST &&
	       state != LINK_DOWN;
}

/* Send HELLO, wait for WELCOME. RET false if it did not come */
static bool _handshake(int fd)
{
	uint64_t until = _now_ms() + WELCOME_MS, now;
	struct packet p;
	int err;

	pthread_mutex_lock(&io_lock);
	sock = fd;
	last_seq = 0;
	syncs_here = 0;
	_set_state(LINK_HELLO);
	err = _send_locked(&hello.hdr);
	if (err)
		_lose_locked("sending HELLO failed", err);
	pthread_mutex_unlock(&io_lock);

	while (_running() && (now = _now_ms()) < until) {
		_sleep((uint32_t) (until - now), fd, POLLIN);
		pthread_mutex_lock(&rx_lock);
		err = link_receive(&p);
		pthread_mutex_unlock(&rx_lock);
		if (!err) {
			pthread_mutex_lock(&io_lock);
			if (link_state() == LINK_HELLO)
				_set_state(LINK_STALE);
			pthread_mutex_unlock(&io_lock);
			stat_add(&overlay_stats.connects, 1);
			return true;
		}
	}
	link_lose("no WELCOME came", ETIMEDOUT);
	return false;
}

/* Send all packets of a sync or backlog, waiting for room.
 * RET false if the sync was overtaken or the connection lost */
static bool _send_all(struct pktbuf *b)
{
	uint64_t progress = _now_ms();
	size_t at = 0;

	while (at < b->len) {
		struct phx_hdr *hdr = (struct phx_hdr *) (b->data + at);
		int err = ECANCELED;

		pthread_mutex_lock(&io_lock);
		if (link_state() == LINK_SYNCING && !atomic_load(&stopping)) {
			err = _send_locked(hdr);
			if (err && err != EAGAIN)
				_lose_locked("sending the state failed", err);
		}
		pthread_mutex_unlock(&io_lock);
		if (!err) {
			at += hdr->length;
			progress = _now_ms();
			_count_event(hdr);
		} else if (err != EAGAIN) {
			return false;
		} else if (_now_ms() - progress > SEND_STALL_MS) {
			link_lose("the daemon does not read", ETIMEDOUT);
			return false;
		} else {
			_sleep(TICK_MS, sock, POLLOUT);
			_drain();
		}
	}
	return true;
}

/* Under slurmctld's READ locks: nothing changes until they are released, and
 * what changes then goes to the backlog. */
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
		wrong = state_self_check();
	if (atomic_load(&usable) && !wrong) {
		pthread_mutex_lock(&io_lock);
		mine = link_state() == LINK_STALE;
		if (mine) {
			pktbuf_reset(&backlog);
			_set_state(LINK_SYNCING);
		}
		pthread_mutex_unlock(&io_lock);
		table_checked = time(NULL);
		atomic_store(&table_hint, false);
		ok = mine && state_build(&sync_buf, &synced);
	}
	unlock_slurmctld(locks);

	if (wrong) {
		error("phalanx: %s; this overlay stays inert", wrong);
		inert = true;
		link_lose("the self-check failed", EPROTO);
	} else if (mine && !ok) {
		link_lose("no memory to send the state", ENOMEM);
	}
	return ok;
}

static void _sync(void)
{
	struct pktbuf late = {0};
	uint64_t start = _now_ms();
	bool ready = false;

	if (!_build_sync())
		return;
	if (syncs_here++)
		stat_add(&overlay_stats.resyncs, 1);
	if (!_send_all(&sync_buf))
		return;
	/* Then what happened meanwhile, until nothing is left. */
	while (!ready) {
		struct pktbuf swap;

		pthread_mutex_lock(&io_lock);
		if (link_state() != LINK_SYNCING) {
			pthread_mutex_unlock(&io_lock);
			break;
		}
		ready = !backlog.len;
		if (ready)
			_set_state(LINK_READY);
		swap = late;
		late = backlog;
		backlog = swap;
		pktbuf_reset(&backlog);
		pthread_mutex_unlock(&io_lock);
		if (!_send_all(&late))
			break;
	}
	pktbuf_free(&late);
	if (ready)
		info("phalanx: synced %u nodes, %u jobs in %u ms",
		     synced.nodes, synced.jobs,
		     (uint32_t) (_now_ms() - start));
}

static void _send_stats(void)
{
	struct phx_stats s = {
		.hdr = { .magic = PHX_MAGIC, .version = PHX_VERSION,
			 .type = PHX_STATS, .length = sizeof(s) },
	};

	stats_fill(&s);
	(void) link_send(&s.hdr); /* the next one says the same and more */
}

static void _log_breaker(void)
{
	static uint64_t opens_seen;
	static bool open_seen;
	uint64_t opens = atomic_load(&overlay_breaker.opens);
	bool closed = atomic_load(&overlay_breaker.state) == BREAKER_CLOSED;

	if (!open_seen && opens != opens_seen)
		info("phalanx: breaker opened, Slurm decides alone");
	if ((open_seen || opens != opens_seen) && closed)
		info("phalanx: breaker closed");
	opens_seen = opens;
	open_seen = !closed;
}

/* Nodes register, change and go without a call of any operation. */
static void _check_table(void)
{
	slurmctld_lock_t locks = { .conf = READ_LOCK, .node = READ_LOCK };
	time_t now = time(NULL);
	bool hint = atomic_exchange(&table_hint, false), changed = false;

	if (!hint && last_node_update < table_checked)
		return;
	table_checked = now;
	lock_slurmctld(locks);
	if (atomic_load(&usable))
		changed = state_table_hash() != synced.table_hash;
	unlock_slurmctld(locks);
	if (!changed)
		return;
	pthread_mutex_lock(&io_lock);
	_stale_locked();
	pthread_mutex_unlock(&io_lock);
}

/* From WELCOME until the connection is lost. */
static void _serve(void)
{
	uint64_t stats_at = 0, table_at = _now_ms() + TABLE_MS, now;

	while (_running()) {
		if (slurmctld_config.shutdown_time) {
			atomic_store(&usable, false);
			link_lose("slurmctld shuts down", 0);
			break;
		}
		if (link_state() == LINK_STALE && atomic_load(&usable))
			_sync();
		else /* in READY an answer must not wake this thread */
			_sleep(TICK_MS, link_state() == LINK_READY ? -1 : sock,
			       POLLIN);
		_drain();
		_log_breaker();
		now = _now_ms();
		if (link_state() != LINK_READY)
			continue;
		if (now >= stats_at) {
			_send_stats();
			stats_at = now + STATS_MS;
		}
		if (now >= table_at) {
			_check_table();
			table_at = _now_ms() + TABLE_MS;
		}
	}
}

static void _disconnect(bool welcomed)
{
	const char *why;
	int err;

	pthread_mutex_lock(&rx_lock);
	pthread_mutex_lock(&io_lock);
	why = link_state() == LINK_LOST ? lost_why : "the overlay stops";
	err = link_state() == LINK_LOST ? lost_err : 0;
	(void) close(sock);
	sock = -1;
	pktbuf_reset(&backlog);
	_set_state(LINK_DOWN);
	pthread_mutex_unlock(&io_lock);
	pthread_mutex_unlock(&rx_lock);
	if (!welcomed)
		debug("phalanx: not connected: %s", why);
	else if (err == EBADMSG)
		info("phalanx: connection lost: malformed message, expected %s",
		     why);
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

		if (inert || !atomic_load(&usable) ||
		    slurmctld_config.shutdown_time) {
			_sleep(IDLE_MS, -1, 0);
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
		if (atomic_exchange(&proved, false))
			backoff = BACKOFF_MIN_MS;
		/* Jitter of a quarter, so that daemons are not met in step */
		_sleep(backoff + (uint32_t) rand_r(&seed) % (backoff / 4), -1,
		       0);
		backoff = MIN(2 * backoff, BACKOFF_MAX_MS);
	}
	return NULL;
}

/* ---- told by the operations */

static void _start(void)
{
	sigset_t all, old;
	int err;

	if (thread_started)
		return;
	loaded = time(NULL);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0) {
		error("phalanx: eventfd: %m; no connection is made");
		return;
	}
	atomic_store(&stopping, false);
	(void) sigfillset(&all); /* signals are slurmctld's business */
	(void) pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, _run, NULL);
	(void) pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		error("phalanx: pthread_create: %s; no connection is made",
		      strerror(err));
		(void) close(wake_fd);
		wake_fd = -1;
		return;
	}
	thread_started = true;
}

extern void link_state_void(void)
{
	_start();
	atomic_store(&usable, false);
	pthread_mutex_lock(&io_lock);
	_stale_locked();
	pthread_mutex_unlock(&io_lock);
}

extern void link_state_whole(void)
{
	struct phx_hello h = {
		.hdr = { .magic = PHX_MAGIC, .version = PHX_VERSION,
			 .type = PHX_HELLO, .length = sizeof(h) },
	};

	state_hello(&h, loaded);
	pthread_mutex_lock(&io_lock);
	hello = h;
	slurm_uid = slurm_conf.slurm_user_id;
	_stale_locked();
	pthread_mutex_unlock(&io_lock);
	atomic_store(&usable, true);
	_wake();
}

extern void link_table_hint(void)
{
	atomic_store(&table_hint, true);
}

extern bool link_stop(void)
{
	struct timespec until;

	if (!thread_started)
		return true;
	atomic_store(&stopping, true);
	_wake();
	(void) clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STOP_S;
	/* It may wait for a lock that our caller holds: do not wait forever */
	if (pthread_timedjoin_np(thread, NULL, &until)) {
		(void) pthread_detach(thread);
		error("phalanx: thread did not end within %d s", STOP_S);
		return false;
	}
	thread_started = false;
	(void) close(wake_fd);
	wake_fd = -1;
	pktbuf_free(&backlog);
	pktbuf_free(&sync_buf);
	return true;
}
