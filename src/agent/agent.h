/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h -- what lives in a target: its rings, its control page, and rows into them.
 *
 * The one library libgsprof_agent.so of a process; the Python extension, the injector and
 * preloading all come in by these functions.  On any trouble it goes quiet: no row, no message,
 * no changed errno.
 *
 * Used by: pyext/ (linked), inject/ (gsp_agent_enter, by name), tests.
 * Threads: all, at once.  After fork the child's first call makes folder, page and rings of its
 *          own; nothing is done in the fork itself but to forget the parent's.
 *          A thread that comes while another starts the agent or makes the table's ring waits for
 *          it, at most a second and a half; then the row is counted as lost, and no other waits.
 * Signal-safe: gsp_agent_put(), gsp_agent_intern(), gsp_agent_serial() once the table's ring is
 *          there.
 * Allocates: at start, once for each table, and once for each thread that comes first to a table.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "wire/control.h"
#include "wire/table.h"

#define GSP_AGENT_API __attribute__((visibility("default")))

/* What becomes of gsp_agent_start(): how it is told to users is their caller's matter. */
enum gsp_agent_rc {
    GSP_AGENT_OK = 0,   /* also: was started already */
    GSP_AGENT_NO_PLACE, /* no folder: shared memory full, read-only, another user's */
    GSP_AGENT_NO_MEMORY,
    GSP_AGENT_OTHER, /* another version is in this process already */
};

/* Makes the folder and the control page; rings come with their first row.  Idempotent: after
 * gsp_agent_stop() it starts anew. */
GSP_AGENT_API enum gsp_agent_rc gsp_agent_start(void);
/* Hooks find nothing to do any more, rings are closed and unmapped (files stay) once no thread is
 * in gsp_agent_put().  Marks the page EJECTED. */
GSP_AGENT_API void gsp_agent_stop(void);
GSP_AGENT_API bool gsp_agent_is_on(void);
/* "0.1.0", of the library that is loaded. */
GSP_AGENT_API const char *gsp_agent_version(void);

/* The word that changes whenever a setting does: keep the address, load relaxed, compare.
 * Never NULL; the address stays valid for ever (after fork and stop too), though the word may be
 * another process's page: gsp_agent_serial() after fork gives the child's. */
GSP_AGENT_API const _Atomic uint64_t *gsp_agent_serial(void);
/* The present value of a setting; false leaves out alone (a writer is at it: ask again later). */
GSP_AGENT_API bool gsp_agent_setting(enum gsp_setting_id id, char out[GSP_CONTROL_VALUE]);
/* Sets one from inside: what the environment or the program says. */
GSP_AGENT_API bool gsp_agent_set(enum gsp_setting_id id, const char *value);
/* The agent's halves say that they have taken up the page as of this serial. */
GSP_AGENT_API void gsp_agent_applied(uint64_t serial);
/* Sets and clears bits of the page's state. */
GSP_AGENT_API void gsp_agent_mark(uint32_t set, uint32_t clear);

/* A table of the program's own: kept for ever, its rows are appended by the id.  If there is one of
 * that name already its id is given, and the table is not kept: see gsp_agent_table_at().
 * When there is no room, an id that no table has. */
GSP_AGENT_API enum gsp_table_id gsp_agent_table_add(const struct gsp_table *table);
/* Any table, also the program's own; NULL past the last. */
GSP_AGENT_API const struct gsp_table *gsp_agent_table_at(size_t id);

/* Appends a row (struct gsp_row_<schema>_<table>); false when it was lost (counted in the ring,
 * or the agent is quiet). */
GSP_AGENT_API bool gsp_agent_put(enum gsp_table_id table, const void *row);
/* The hot one: no table to look up. */
GSP_AGENT_API bool gsp_agent_put_torch(const struct gsp_row_python_torch_trace *row);
/* The id of a string in a table's dictionary; GSP_NULL_STR when there is no room.  Ids are of one
 * generation: after fork and restart they must be asked for again. */
GSP_AGENT_API uint32_t gsp_agent_intern(enum gsp_table_id table, struct gsp_sv text);
/* Grows when all interned ids are void: fork, stop, start.  One relaxed load. */
GSP_AGENT_API const _Atomic uint32_t *gsp_agent_generation(void);
/* Whether the program has put itself into a sandbox (a filter of system calls) since the first
 * start: a filter may kill a process that opens a file.  No folder, page or ring is made there. */
GSP_AGENT_API bool gsp_agent_is_sandboxed(void);
/* The rank of the process, once it is known: rings that are there and those to come. */
GSP_AGENT_API void gsp_agent_set_rank(int64_t rank);

/* What the injector calls, in a thread of the target: starts the agent and, in a thread that ends
 * by itself, runs the Python file `script` under the interpreter that is there (by its exported C
 * functions, found by name).  The outcome goes to the file `outcome` (made complete, then
 * renamed): one line "ok", or "error <what>".  script NULL: only the agent.
 * 0: begun.  Never waits for the interpreter's lock itself. */
GSP_AGENT_API int gsp_agent_enter(const char *script, const char *outcome);
