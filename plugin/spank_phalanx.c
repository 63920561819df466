/* SPDX-License-Identifier: GPL-2.0-or-later */
/* spank_phalanx.c - the option --hdfs-input of sbatch, salloc and srun.
 *
 * plugstack.conf:  optional  spank_phalanx.so
 *
 * All that it does is to pass the value on, as HDFS_INPUT in the environment
 * of the job and as SPANK_HDFS_INPUT in its control environment; the submit
 * plugin (config/slurm/job_submit.lua) writes it into admin_comment, which is
 * what the daemon reads.  Without that plugin the option has no effect.
 *
 * Built against spank.h alone, for one release of Slurm, as all SPANK plugins. */
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

#define VALUE_MAX 4096

SPANK_PLUGIN(phalanx, 1);

static char value[VALUE_MAX];

static int _take(int val, const char *optarg, int remote)
{
	(void) val;
	(void) remote;
	if (!optarg || !optarg[0] || strlen(optarg) >= sizeof(value)) {
		slurm_error("--hdfs-input: expected PATH or URI, several with "
			    "commas between, at most %d bytes", VALUE_MAX - 1);
		return -1;
	}
	for (const char *c = optarg; *c; c++) {
		if ((unsigned char) *c < ' ') {
			slurm_error("--hdfs-input: a control character");
			return -1;
		}
	}
	strcpy(value, optarg);
	return 0;
}

static struct spank_option option = {
	"hdfs-input",
	"URI[,URI...]",
	"input in HDFS: the job is placed near it "
	"[;split=block|N|SIZE][;recursive][;locality=prefer|require|off]",
	1,
	0,
	_take,
};

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	(void) ac;
	(void) av;
	return spank_option_register(sp, &option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	spank_context_t context = spank_context();

	(void) ac;
	(void) av;
	if (!value[0] || (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR))
		return 0;
	if (setenv("HDFS_INPUT", value, 1))
		return -1;
	/* A step of a running job has no say in where the job is. */
	(void) spank_job_control_setenv(sp, "HDFS_INPUT", value, 1);
	return 0;
}
