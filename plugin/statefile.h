/* SPDX-License-Identifier: GPL-2.0-or-later */
/* statefile.h - small files in slurmctld's StateSaveLocation, for its owner alone. */
#pragma once

#include <stdio.h>

/* Set the directory; NULL or a long one: nothing is written or read.
 * Called while slurmctld's configuration is held. */
extern void statefile_place(const char *dir);

/* Write a file anew; who reads it sees the old one or the whole new one.
 * IN fill - writes what it is to hold, from `arg`
 * OUT path - of the file; room for PATH_MAX
 * RET 0 or an errno value */
extern int statefile_write(const char *name, void (*fill)(FILE *f, const void *arg),
			   const void *arg, char *path);

/* Open a file for reading. RET NULL where there is none */
extern FILE *statefile_read(const char *name);
