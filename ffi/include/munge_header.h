/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The part of libmunge that bindgen reads: all of its public header. */
#include <munge.h>
