/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h -- frames that are not the program's own: those of the import system, and gsprof's.
 *
 * Used by: sample/ (what is recorded), digest/ (memory sites).
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* What stands for however many frames an import takes. */
#define GSP_MARK_IMPORT "(import)"

/* Whether the file of a Python frame is the import system's. */
bool gsp_frame_is_import(struct gsp_sv file);
/* Whether it is a file of the package that gsprof loads into a program, or stands for one. */
bool gsp_frame_is_own(struct gsp_sv file);
