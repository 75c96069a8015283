/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "daemon/sessions_internal.h"

/* What a session file has besides its frames: labels, statistics. */
#define REST_BYTES    (UINT64_C(64) << 10)
#define BLOCK_BYTES   UINT64_C(4096)
/* Space that anonymous sessions leave free: a twentieth of the disk, at most this. */
#define RESERVE_BYTES (UINT64_C(256) << 20)

void gsp_daemon__sessions_measure(const struct gsp_sessions *sessions, struct session *s)
{
    gsp_auto_buf path = {0};
    struct stat facts;
    if (!s->anonymous)
        return;
    gsp_daemon__sessions_path(sessions, s->file, &path);
    const char *text = gsp_buf_cstr(&path);
    const bool exists = text && lstat(text, &facts) == 0 && S_ISREG(facts.st_mode);
    s->file_bytes = exists ? (uint64_t)facts.st_size + BLOCK_BYTES : 0;
}

/* The size that the file would have now. */
static uint64_t estimate(const struct gsp_sessions *sessions, const struct session *s)
{
    const uint64_t last = s->state == SESSION_ACTIVE ? UINT64_MAX : s->last_frame;
    return REST_BYTES + gsp_frames_log_text_bytes(sessions->frames, s->first_frame, last);
}

static uint64_t used_bytes(const struct gsp_sessions *sessions) GSP_REQUIRES(&sessions->lock)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        if (s && s->anonymous)
            bytes += s->state <= SESSION_ENDED ? estimate(sessions, s) : s->file_bytes;
    }
    return bytes;
}

bool gsp_daemon__sessions_share_is_used(const struct gsp_sessions *sessions)
{
    return sessions->anonymous_active && used_bytes(sessions) >= sessions->share_bytes;
}

/* The user may have removed files. */
static void measure_all(struct gsp_sessions *sessions) GSP_REQUIRES(&sessions->lock)
{
    for (size_t i = 0; i < sessions->slot_count; i++)
        if (sessions->slots[i] && sessions->slots[i]->state > SESSION_ENDED)
            gsp_daemon__sessions_measure(sessions, sessions->slots[i]);
}

static bool has_reserve(const char *folder)
{
    struct statvfs disk;
    if (statvfs(folder, &disk) < 0)
        return true;
    const uint64_t unit = disk.f_frsize ? disk.f_frsize : disk.f_bsize;
    const uint64_t share = (uint64_t)disk.f_blocks * unit / 20;
    return (uint64_t)disk.f_bavail * unit >= (share < RESERVE_BYTES ? share : RESERVE_BYTES);
}

/* Whether anonymous sessions that are not active have half of the places for finished ones. Their
 * files are not removed to make room. */
static bool places_are_taken(const struct gsp_sessions *sessions) GSP_REQUIRES(&sessions->lock)
{
    size_t count = 0;
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        count += s && s->anonymous && s->state != SESSION_ACTIVE;
    }
    return count >= (sessions->keep_max + 1) / 2;
}

static int check(struct gsp_sessions *sessions, struct gsp_err *err) GSP_REQUIRES(&sessions->lock)
{
    if (sessions->anonymous_active >= GSP_SESSIONS_ANONYMOUS_MAX)
        return gsp_err_set(err, GSP_E_LIMIT, 0,
                           "%u sessions of clients without trust are already active",
                           GSP_SESSIONS_ANONYMOUS_MAX);
    if (places_are_taken(sessions))
        return gsp_err_set(err, GSP_E_LIMIT, ENOSPC,
                           "too many finished sessions were started without trust: half of "
                           "keep_sessions");
    if (!has_reserve(sessions->output_folder))
        return gsp_err_set(err, GSP_E_NOWRITE, ENOSPC,
                           "the disk of the output folder is almost full");
    if (used_bytes(sessions) + REST_BYTES <= sessions->share_bytes)
        return GSP_OK;
    measure_all(sessions);
    if (used_bytes(sessions) + REST_BYTES <= sessions->share_bytes)
        return GSP_OK;
    return gsp_err_set(err, GSP_E_NOWRITE, ENOSPC,
                       "the sessions of clients without trust have reached their share of the "
                       "disk, %llu MiB",
                       (unsigned long long)(sessions->share_bytes >> 20));
}

int gsp_daemon__sessions_share_check(struct gsp_sessions *sessions, struct gsp_err *err)
{
    const int rc = check(sessions, err);
    if (rc < 0)
        gsp_err_set_reason(err, GSP_REASON_SHARE);
    return rc;
}
