/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.h -- frames that do not belong to the program: those of the import system, and gsprof's.
 *
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* The mark that stands for all frames of an import. */
#define GSP_MARK_IMPORT "(import)"

/* Returns whether the file of a Python frame belongs to the import system. */
bool gsp_model_file_is_import(struct gsp_sv file);
/* Returns whether the file belongs to the package that gsprof loads into a program, or is one of
 * its marks. */
bool gsp_model_file_is_own(struct gsp_sv file);
