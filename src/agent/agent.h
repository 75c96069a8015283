/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h -- the library in a target, libgsprof_agent.so: its rings, its control page, and the
 * functions that append rows.
 *
 * The Python extension, the injector and preloading all use these functions. On any error the agent
 * goes quiet: it writes no rows and no messages, and does not change errno.
 *
 * Threads: any. After fork, the child's first call creates its own ring directory, page and rings;
 *          the fork itself only drops those of the parent.
 *          While one thread starts the agent or creates the ring of a table, other threads wait for
 *          it, at most 1.5 seconds. Then the row is counted as lost, and no other thread waits.
 * Signal-safe: gsp_agent_put(), gsp_agent_intern() and gsp_agent_serial(), once the ring of the
 *          table exists.
 * Allocates: at start, once for each table, and once for each thread and table.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "wire/control.h"
#include "wire/table.h"

#define GSP_AGENT_API __attribute__((visibility("default")))

/* Results of gsp_agent_start(). */
enum gsp_agent_rc {
    GSP_AGENT_OK = 0,   /* also if it was already started */
    GSP_AGENT_NO_SPACE, /* no ring directory: shared memory full, read-only or of another user */
    GSP_AGENT_NO_MEMORY,
    GSP_AGENT_OTHER, /* another copy of the agent is in this process */
};

/* Creates the ring directory and the control page. Each ring is created with its first row.
 * Idempotent. May be called again after gsp_agent_stop(). */
GSP_AGENT_API enum gsp_agent_rc gsp_agent_start(void);
/* Disables the agent. Closes and unmaps the rings (files stay) once no thread is in
 * gsp_agent_put(). Marks the page as EJECTED. */
GSP_AGENT_API void gsp_agent_stop(void);
GSP_AGENT_API bool gsp_agent_is_on(void);
/* "0.1.0": the version of the loaded library. */
GSP_AGENT_API const char *gsp_agent_version(void);

/* Returns a word that changes whenever a setting does: keep the address, load it relaxed, compare.
 * Never NULL. The address stays valid forever, also after fork and stop. After fork, call it again:
 * until then the word may belong to the parent's page. */
GSP_AGENT_API const _Atomic uint64_t *gsp_agent_serial(void);
/* Copies the value of a setting. Returns false and leaves `out` unchanged if a writer interferes;
 * try again later. */
GSP_AGENT_API bool gsp_agent_setting(enum gsp_setting_id id, char out[GSP_CONTROL_VALUE]);
/* Sets a value from inside the process, for the environment or the program. */
GSP_AGENT_API bool gsp_agent_set(enum gsp_setting_id id, const char *value);
/* Stores that the page has been applied as of this serial. */
GSP_AGENT_API void gsp_agent_applied(uint64_t serial);
/* Sets and clears bits of the page's state. */
GSP_AGENT_API void gsp_agent_mark(uint32_t set, uint32_t clear);

/* Adds a table of the program, which must stay valid forever. Returns the id for its rows. If a
 * table of that name exists, returns its id and ignores the new one: see gsp_agent_table_at().
 * If the list of tables is full, returns an id without a table. */
GSP_AGENT_API enum gsp_table_id gsp_agent_table_add(const struct gsp_table *table);
/* Returns a table, also one of the program; NULL past the last. */
GSP_AGENT_API const struct gsp_table *gsp_agent_table_at(size_t id);

/* Appends a row (struct gsp_row_<schema>_<table>). Returns false if it was lost: counted in the
 * ring, or the agent is quiet. */
GSP_AGENT_API bool gsp_agent_put(enum gsp_table_id table, const void *row);
/* The same for python.torch_trace, the hot path, without a table lookup. */
GSP_AGENT_API bool gsp_agent_put_torch(const struct gsp_row_python_torch_trace *row);
/* Returns the id of a string in a table's dictionary; GSP_NULL_STR if the dictionary is full. Ids
 * are valid for one generation: get them again after fork and restart. */
GSP_AGENT_API uint32_t gsp_agent_intern(enum gsp_table_id table, struct gsp_sv text);
/* Returns a number that grows when all interned ids become invalid: at fork, stop and start. Load
 * it relaxed. */
GSP_AGENT_API const _Atomic uint32_t *gsp_agent_generation(void);
/* Whether the program has entered a sandbox (a system call filter) since the first start. A filter
 * may kill a process that opens a file, so the agent creates no directory, page or ring then. */
GSP_AGENT_API bool gsp_agent_is_sandboxed(void);
/* Sets the rank of the process, for existing and later rings. */
GSP_AGENT_API void gsp_agent_set_rank(int64_t rank);

/* The entry point for the injector, in a thread of the target: starts a new thread, which starts
 * the agent and runs the Python file `script` in the interpreter of the process (through its
 * exported C functions, found by name). If script is NULL, only starts the agent. The new thread
 * writes one line to the file `outcome` (complete, then renamed): "ok" or "error <reason>". *rc is
 * 0 if the thread was started. Never waits for the GIL. */
GSP_AGENT_API void gsp_agent_enter(const char *script, const char *outcome, int *rc);
