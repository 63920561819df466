/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What bindgen reads of libmunge: all of its public header. */
#include <munge.h>
