/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sql_guard.h -- refuses statements by their text that the engine would classify as SELECT although
 * they change the engine's state.
 *
 * The engine replaces some PRAGMAs by a SELECT before it returns the type of a statement, and has
 * table functions that change settings (enable_logging). The type is checked as well (query.c).
 * Threads: no state.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

bool gsp_store__sql_is_pragma(struct gsp_sv sql);

/* Whether the text is one statement. The engine makes several of some statements: of PIVOT. */
bool gsp_store__sql_is_one(struct gsp_sv sql);
/* Whether a statement starts with a word that can begin a SELECT or EXPLAIN. */
bool gsp_store__sql_may_read(struct gsp_sv sql);

/* Fails with PERM if the statement calls a function that changes settings, writes logs, reads
 * memory, or runs SQL from a string. */
GSP_MUST_CHECK int gsp_store__sql_check_calls(struct gsp_sv sql, struct gsp_err *err);
