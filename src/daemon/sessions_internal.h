/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions_internal.h -- the table of sessions, shared by the files sessions*.c.
 *
 * Threads: all members of a session are protected by the lock of its table. While a session is
 *          busy, only the thread that made it busy changes or removes it, and that thread may read
 *          it without the lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/map.h"
#include "daemon/sessions.h"
#include "frames/journal.h"

#define SESSION_NONE UINT32_MAX

enum session_state {
    SESSION_ACTIVE,
    SESSION_ENDED,   /* has an end but no file yet */
    SESSION_WRITTEN, /* the file exists but may not survive a power cut */
    SESSION_DONE,    /* the file is on disk, and the journal says so */
    SESSION_STATES
};

/* One stack recording of a session; sessions_stacks.c. */
struct stacks_part {
    char *file;  /* in the output folder; "": it could not be started */
    char *error; /* NULL: none */
    uint64_t process_start;
    int64_t start_ns;
    int64_t end_ns;
    int64_t samples; /* GSP_NULL_I64: not known */
    int32_t pid;
    char end;  /* GSP_STACKS_* */
    bool kept; /* lasts until the session ends, so that the next daemon continues it */
};

struct session {
    char *name;
    char *file;   /* in the output folder */
    char *labels; /* NULL: none */
    char *error;  /* why the file could not be written; NULL: none */
    int32_t *pids;
    uint64_t id; /* in the journal */
    int64_t start_ns;
    int64_t end_ns;
    uint64_t first_frame;
    uint64_t last_frame; /* first_frame - 1: it ended without a frame */
    uint64_t frame_count;
    int64_t period_ns; /* at its end; 0: not known */
    int64_t retry_ns;  /* earliest time of the next attempt to write the file */
    struct stacks_part *parts;
    size_t part_count;
    size_t part_cap;
    double stack_rate_hz;
    uint64_t file_bytes; /* of an anonymous session */
    uint32_t pid_count;
    enum session_state state;
    bool anonymous;
    bool cut; /* it was stopped because of its share of the disk */
    bool stacks;
    bool stack_native;
    bool force;
    bool claimed; /* the journal has the file's name, so a file of that name is ours */
    bool busy;    /* a thread writes or syncs its file, without the lock */
};

struct gsp_sessions {
    struct gsp_frame_log *frames;
    struct gsp_journal *journal;
    char *output_folder;
    char *host;
    int64_t keep_ns;
    uint32_t keep_max;
    uint64_t share_bytes;

    struct gsp_lock lock;
    struct session **slots GSP_GUARDED_BY(lock); /* NULL: free */
    size_t slot_count GSP_GUARDED_BY(lock);
    size_t slot_cap GSP_GUARDED_BY(lock);
    size_t live GSP_GUARDED_BY(lock); /* slots in use */
    size_t counts[SESSION_STATES] GSP_GUARDED_BY(lock);
    size_t anonymous_active GSP_GUARDED_BY(lock);
    uint64_t changes GSP_GUARDED_BY(lock);
    bool
        moved GSP_GUARDED_BY(lock); /* a session changed since gsp_daemon__sessions_update_keep() */
    int64_t forget_ns GSP_GUARDED_BY(lock);     /* earliest time of the next check for age */
    struct gsp_hmap names GSP_GUARDED_BY(lock); /* hash of the name -> slot of the newest */
    struct gsp_hmap files GSP_GUARDED_BY(lock); /* hash of the file's name -> slot */
    struct gsp_hmap ids GSP_GUARDED_BY(lock);   /* id -> slot; only while the journal is read */
    uint64_t next_id GSP_GUARDED_BY(lock);
    int64_t synced_ns GSP_GUARDED_BY(lock); /* when the frame log was last synced */
};

/* sessions_table.c */
void gsp_daemon__sessions_free_session(struct session *s);
/* Adds a session to the table, which then owns it. Returns its slot, or SESSION_NONE without
 * memory. */
uint32_t gsp_daemon__sessions_insert(struct gsp_sessions *sessions, struct session *s)
    GSP_REQUIRES(&sessions->lock);
/* Frees the session, which must not be busy. */
void gsp_daemon__sessions_remove(struct gsp_sessions *sessions, uint32_t slot)
    GSP_REQUIRES(&sessions->lock);
/* The only way to change the state of a session in the table. */
void gsp_daemon__sessions_set_state(struct gsp_sessions *sessions, struct session *s,
                                    enum session_state state) GSP_REQUIRES(&sessions->lock);
/* The newest session of a name, or the session of a file: a slot or SESSION_NONE. */
uint32_t gsp_daemon__sessions_by_name(const struct gsp_sessions *sessions, const char *name)
    GSP_REQUIRES(&sessions->lock);
uint32_t gsp_daemon__sessions_by_file(const struct gsp_sessions *sessions, const char *file)
    GSP_REQUIRES(&sessions->lock);
/* Changes the name of the session's file. Returns false without memory. */
bool gsp_daemon__sessions_set_file(struct gsp_sessions *sessions, uint32_t slot, const char *file)
    GSP_REQUIRES(&sessions->lock);
uint32_t gsp_daemon__sessions_slot_of(const struct gsp_sessions *sessions, const struct session *s)
    GSP_REQUIRES(&sessions->lock);

/* sessions_journal.c: one line for each change. */
enum session_change {
    SESSION_STARTS = 'S',
    SESSION_ENDS = 'E',    /* also if the file gets another name */
    SESSION_GOES_ON = 'A', /* undoes an end that could not be synced */
    SESSION_IS_CUT = 'L',  /* it ended because of its share of the disk */
    SESSION_IS_SAFE = 'W', /* its file is on disk */
    SESSION_FORGOTTEN = 'D',
};
/* Appends a line to the journal. *mark is for gsp_frames_journal_sync(). */
GSP_MUST_CHECK int
gsp_daemon__sessions_journal_append(struct gsp_sessions *sessions, enum session_change change,
                                    const struct session *s, uint64_t *mark, struct gsp_err *err)
    GSP_REQUIRES(&sessions->lock);
/* Applies one line of the journal to the table. */
gsp_journal_reader gsp_daemon__sessions_replay;
/* Reads a number that is not negative. */
bool gsp_daemon__sessions_parse_number(struct gsp_sv field, int64_t *out);
/* Whether a name can be that of a file directly in the output folder. */
bool gsp_daemon__sessions_file_is_valid(struct gsp_sv file);
/* Rewrites the journal if most of its lines are obsolete. */
void gsp_daemon__sessions_compact(struct gsp_sessions *sessions) GSP_REQUIRES(&sessions->lock);

/* sessions_stacks.c */
void gsp_daemon__sessions_free_parts(struct session *s);
/* Applies a line of the journal if it is about a stack recording. */
void gsp_daemon__sessions_replay_part(struct session *s, const struct gsp_sv *fields, size_t count);
/* Appends the lines of the session's stack recordings. Returns their number. */
size_t gsp_daemon__sessions_put_parts(struct gsp_buf *out, const struct session *s);
/* A JSON array of the stack recordings. */
void gsp_daemon__sessions_parts_json(const struct session *s, struct gsp_json *json);
struct stacks_sums {
    uint32_t files;
    uint32_t gaps; /* times that a process was not sampled because no daemon ran */
    int64_t gap_ns;
    const struct stacks_part *failed; /* the first with an error; NULL: none */
};
void gsp_daemon__sessions_sum_parts(const struct session *s, struct stacks_sums *out);

/* sessions_share.c: the share of the disk that anonymous sessions have. */
/* Whether one more anonymous session may start. Fails with LIMIT, NOWRITE. */
GSP_MUST_CHECK int gsp_daemon__sessions_share_check(struct gsp_sessions *sessions,
                                                    struct gsp_err *err)
    GSP_REQUIRES(&sessions->lock);
/* Reads the size of the file of an anonymous session. */
void gsp_daemon__sessions_measure(const struct gsp_sessions *sessions, struct session *s)
    GSP_REQUIRES(&sessions->lock);
/* Whether the files of the anonymous sessions have reached their share. */
bool gsp_daemon__sessions_share_is_used(const struct gsp_sessions *sessions)
    GSP_REQUIRES(&sessions->lock);

/* sessions_files.c */
void gsp_daemon__sessions_path(const struct gsp_sessions *sessions, const char *file,
                               struct gsp_buf *out);
/* Removes the file of a session, unless another program has replaced it by something else. */
void gsp_daemon__sessions_unlink(const struct gsp_sessions *sessions, const struct session *s);
/* Chooses a file name for a session of that name. Returns false without memory. */
bool gsp_daemon__sessions_choose_file(struct gsp_sessions *sessions, const char *name, bool force,
                                      struct gsp_buf *out) GSP_REQUIRES(&sessions->lock);
/* Chooses another file name if another program has created a file of that name. Call it before the
 * journal claims the name. */
GSP_MUST_CHECK int gsp_daemon__sessions_recheck_file(struct gsp_sessions *sessions, uint32_t slot,
                                                     struct gsp_err *err)
    GSP_REQUIRES(&sessions->lock);
/* Writes the file of a busy session that has ended. The session is not busy afterwards. */
GSP_MUST_CHECK int gsp_daemon__sessions_write(struct gsp_sessions *sessions, struct session *s,
                                              struct gsp_err *err) GSP_EXCLUDES(&sessions->lock);
/* Lets the frame log remove the frames that no session needs. Cheap if no session has changed. */
void gsp_daemon__sessions_update_keep(struct gsp_sessions *sessions) GSP_REQUIRES(&sessions->lock);
