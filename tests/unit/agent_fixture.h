/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent_fixture.h -- an agent whose rings are in a private folder of the test, and a reader of
 * them.
 */
#pragma once

#include <errno.h>
#include <ftw.h>
#include <pthread.h>

#include "agent/agent.h"
#include "ring/dir.h"
#include "ring/process.h"
#include "ring_fixture.h"
#include "wire/control_file.h"

#define SETTING_FILE "gsprof.setting.ring"

static char agent_root[64];

/* Creates a folder for the rings of this test. */
static inline void agent_setup(void)
{
    snprintf(agent_root, sizeof(agent_root), "%s/gsprof-agent-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    tap_require(mkdtemp(agent_root) != NULL);
    setenv("XDG_RUNTIME_DIR", agent_root, 1);
    unsetenv("GSPROF_RING_ROWS");
}

static inline int agent_remove_one(const char *path, const struct stat *st, int kind,
                                   struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline void agent_teardown(void)
{
    tap_eq_int(nftw(agent_root, agent_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Opens the ring directory of a process. Returns -1 if none exists. */
static inline int agent_folder(pid_t pid)
{
    struct gsp_ring_dir dir;
    int fd = -1;
    /* An earlier process with this pid may have left rings elsewhere. */
    if (gsp_ring_dir_find(pid, &dir, NULL) != 0 ||
        strncmp(dir.path, agent_root, strlen(agent_root)) != 0 ||
        gsp_ring_dir_open(&dir, &fd, NULL) != 0)
        return -1;
    return fd;
}

struct agent_rows {
    uint64_t rows; /* published so far */
    uint64_t lost;
    uint64_t torn;
    int64_t rank;
    uint32_t capacity;
    uint32_t status;
};

/* Reads a ring. The rows of torch_trace must be those of ring_row(). */
static inline struct agent_rows agent_read(pid_t pid, const char *file)
{
    struct agent_rows out = {.rank = GSP_NULL_I64};
    struct gsp_ring_view *view = NULL;
    struct gsp_ring_state state;
    const int folder = agent_folder(pid);
    if (folder >= 0 && gsp_ring_open(folder, file, &view, NULL) == 0) {
        struct ring_seen seen = {0};
        gsp_ring_state(view, &state);
        if (strcmp(file, RING_FILE) == 0)
            ring_check(view, &seen);
        out = (struct agent_rows){.rows = state.rows,
                                  .lost = state.rows_lost,
                                  .torn = seen.torn,
                                  .rank = gsp_ring_info(view)->rank,
                                  .capacity = gsp_ring_info(view)->row_capacity,
                                  .status = state.status};
        gsp_ring_view_close(view);
    }
    if (folder >= 0)
        close(folder);
    return out;
}

static inline uint64_t agent_put_rows(uint64_t writer, uint64_t count)
{
    uint64_t done = 0;
    for (uint64_t n = 0; n < count; n++) {
        const struct gsp_row_python_torch_trace row = ring_row(writer, n);
        done += gsp_agent_put_torch(&row);
    }
    return done;
}
