/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * othersize.c - a program like slurmctld, of the same version, whose
 * slurmctld_config has another size: the overlay must refuse to start in it.
 *
 * usage: othersize OVERLAY.so
 */

#include <dlfcn.h>
#include <stddef.h>

#include "check.h"

char slurmctld_config[16];

int main(int argc, char **argv)
{
	int (*init)(void);
	void *overlay;

	CHECK_EQ(argc, 2);
	overlay = dlopen(argv[1], RTLD_LAZY);
	CHECK(overlay);
	*(void **) &init = dlsym(overlay, "init");
	CHECK(init);
	CHECK_EQ(init(), -1);
	puts("othersize: ok");
	return 0;
}
