/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * served.c - LD_PRELOAD of grammar.py: a command of Slurm that reads its command
 * lines from standard input and forks for each, so that nothing is loaded twice.
 * Its name is that in SERVED: what starts it may be scripts (slurm-tree).
 * A line is a letter, then the words, each behind a 0x1f: `k` keeps the job that
 * sbatch submits if it starts at once, `e` ends it as soon as its record has been
 * read.  An answer is a line with exit status and length, then as many bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK '\x1f'
#define WORDS_MAX 200
#define WAIT_MS 3
#define ENDS_MS 20000

typedef int (*main_f)(int, char **, char **);
typedef int (*start_f)(main_f, int, char **, void (*)(void), void (*)(void), void (*)(void),
		       void *);

static main_f slurm_main;
static bool keep;

/* Print a job's record: one line for it, or for each task of an array. RET true if it runs */
static bool _tell(uint32_t job_id)
{
	job_info_msg_t *found = NULL;
	bool runs = false;

	if (slurm_load_job(&found, job_id, SHOW_ALL)) {
		printf("=JOB %u gone\n", job_id);
		return false;
	}
	for (uint32_t i = 0; i < found->record_count; i++) {
		job_info_t *job = &found->job_array[i];

		runs |= (job->job_state & JOB_STATE_BASE) == JOB_RUNNING;
		printf("=JOB %u|%u|%s|%s|%s\n", job->job_id, job->job_state,
		       job->nodes ? job->nodes : "",
		       job->tres_alloc_str ? job->tres_alloc_str : "",
		       job->partition ? job->partition : "");
	}
	slurm_free_job_info_msg(found);
	return runs;
}

/* End a job and wait until its nodes have heard of it. */
static void _end(uint32_t job_id)
{
	job_info_msg_t *found = NULL;
	bool ending = !slurm_kill_job(job_id, SIGKILL, 0);

	for (int i = 0; ending && i < ENDS_MS / WAIT_MS; i++) {
		if (slurm_load_job(&found, job_id, SHOW_ALL))
			return;
		ending = found->job_array[0].job_state & JOB_COMPLETING;
		slurm_free_job_info_msg(found);
		if (ending)
			usleep(WAIT_MS * 1000);
	}
}

/*
 * Submit, as sbatch calls it, and look at once at what came of it.  slurmctld
 * starts a batch job some time later, an allocation within the call: the request
 * goes as the latter.
 */
extern int slurm_submit_batch_job(job_desc_msg_t *job, submit_response_msg_t **answer)
{
	resource_allocation_response_msg_t *got = NULL;

	job->script = NULL;
	if (slurm_allocate_resources(job, &got))
		return SLURM_ERROR;
	*answer = calloc(1, sizeof(**answer));
	(*answer)->job_id = got->job_id;
	/* The scheduler may start it before its record is read. */
	printf("=CODE %u%s\n", got->error_code, got->node_list ? "" : " waits");
	if (!_tell(got->job_id) || !keep)
		_end(got->job_id);
	/* sbatch frees the answer its own way, so end here. */
	exit(0);
}

/* Run the command with the words of a line, whatever it prints going to `out`. */
static void _child(char *line, char *name, int out, char **env)
{
	char *words[WORDS_MAX + 2] = { name };
	char *rest = strchr(line, MARK), mark[] = { MARK, 0 };
	int count = 1, null = open("/dev/null", O_RDONLY);

	if (rest)
		rest++;
	for (char *word; count <= WORDS_MAX && (word = strsep(&rest, mark));)
		words[count++] = word;
	keep = line[0] == 'k';
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(120);
	exit(slurm_main(count, words, env));
}

/* Fork for a line and print its answer. */
static bool _answer(char *line, char *name, char **env)
{
	static char text[1 << 20];
	size_t length = 0;
	ssize_t got;
	int ends[2], status = 0;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return false;
	if (!(child = fork()))
		_child(line, name, ends[1], env);
	close(ends[1]);
	while ((got = read(ends[0], text + length, sizeof(text) - length)) > 0)
		length += got;
	close(ends[0]);
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return false;
	printf("%d %zu\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	       length);
	fwrite(text, 1, length, stdout);
	return !fflush(stdout);
}

static int _serve(int argc, char **argv, char **env)
{
	int (*init)(const char *) = dlsym(RTLD_DEFAULT, "slurm_conf_init");
	int (*auth)(char *) = dlsym(RTLD_DEFAULT, "slurm_auth_init");
	char *line = NULL;
	size_t size = 0;
	ssize_t got;

	(void) argc;
	if (init)
		init(NULL);
	if (auth)
		auth(NULL);
	while ((got = getline(&line, &size, stdin)) > 0) {
		line[got - 1] = 0;
		if (!_answer(line, argv[0], env))
			return 1;
	}
	return 0;
}

extern int __libc_start_main(main_f entry, int argc, char **argv, void (*init)(void),
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	start_f next = (start_f) dlsym(RTLD_NEXT, "__libc_start_main");

	const char *served = getenv("SERVED"), *name = strrchr(argv[0], '/');

	if (!served || strcmp(served, name ? name + 1 : argv[0]))
		return next(entry, argc, argv, init, fini, rtld_fini, stack_end);
	slurm_main = entry;
	return next(_serve, argc, argv, init, fini, rtld_fini, stack_end);
}
