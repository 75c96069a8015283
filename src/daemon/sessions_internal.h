/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sessions_internal.h -- the table of sessions and its lines in the journal.
 *
 * Used by: sessions*.c alone.
 * Threads: everything under sessions->lock, but a session that is busy is read by its writer.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "daemon/sessions.h"
#include "frames/journal.h"

#define SESSION_NONE UINT32_MAX

enum session_state {
    SESSION_ACTIVE,
    SESSION_ENDED,   /* has an end, and no file yet */
    SESSION_WRITTEN, /* the file is there, but not safe from a power cut */
    SESSION_DONE,
    SESSION_STATES
};

/* A file of stacks; sessions_stacks.c. */
struct stacks_part {
    char *file;  /* in the output folder; "": none could be begun */
    char *error; /* NULL: nothing went wrong */
    uint64_t process_start;
    int64_t start_ns;
    int64_t end_ns;
    int64_t samples; /* GSP_NULL_I64: not known */
    int32_t pid;
    char end;  /* GSP_STACKS_* */
    bool kept; /* for the whole session: the next daemon goes on with it */
};

struct session {
    char *name;
    char *file;   /* in the output folder */
    char *labels; /* NULL: none */
    char *error;  /* why there is no file; NULL: nothing went wrong */
    int32_t *pids;
    uint64_t id; /* in the journal */
    int64_t start_ns;
    int64_t end_ns;
    uint64_t first_frame;
    uint64_t last_frame; /* first_frame - 1: ended without a frame */
    uint64_t frame_count;
    int64_t period_ns; /* when it ended; 0: not known */
    int64_t retry_ns;  /* not before */
    struct stacks_part *parts;
    size_t part_count;
    double stack_rate_hz;
    uint32_t pid_count;
    enum session_state state;
    bool stacks;
    bool stack_native;
    bool force;
    bool claimed; /* the journal has the file's name: a file of that name is ours */
    bool busy;    /* somebody writes its file, without the lock */
};

struct gsp_sessions {
    struct gsp_frames *frames;
    struct gsp_journal *journal;
    char *output_folder;
    char *host;
    int64_t keep_ns;
    uint32_t keep_max;

    pthread_mutex_t lock;
    struct session **slots; /* NULL: free */
    size_t slot_count;
    size_t slot_cap;
    size_t live; /* slots in use */
    size_t counts[SESSION_STATES];
    uint64_t changes;
    bool moved;            /* a session came, went or changed its state since the last look */
    int64_t forget_ns;     /* nothing is too old before */
    struct gsp_hmap names; /* hash of the name -> slot of the newest; SESSION_NONE: none */
    struct gsp_hmap files; /* hash of the file's name -> slot */
    struct gsp_hmap ids;   /* for reading the journal only */
    uint64_t next_id;
    int64_t synced_ns; /* when the frames were made safe */
};

/* sessions_table.c */
void gsp_sessions__free_session(struct session *s);
/* Puts a session into the table, which owns it then; worth its slot, or SESSION_NONE. */
uint32_t gsp_sessions__insert(struct gsp_sessions *sessions, struct session *s);
void gsp_sessions__remove(struct gsp_sessions *sessions, uint32_t slot);
/* The one way to change a state once a session is in the table. */
void gsp_sessions__set_state(struct gsp_sessions *sessions, struct session *s,
                             enum session_state state);
uint32_t gsp_sessions__by_name(const struct gsp_sessions *sessions, const char *name);
uint32_t gsp_sessions__by_file(const struct gsp_sessions *sessions, const char *file);
/* Gives the session another file; false when there is no memory. */
bool gsp_sessions__set_file(struct gsp_sessions *sessions, uint32_t slot, const char *file);
uint32_t gsp_sessions__slot_of(const struct gsp_sessions *sessions, const struct session *s);

/* sessions_journal.c: one line for each change.  *mark is for gsp_journal_sync(). */
enum session_change {
    SESSION_STARTS = 'S',
    SESSION_ENDS = 'E',    /* also when the file gets another name */
    SESSION_GOES_ON = 'A', /* an end that could not be made safe is taken back */
    SESSION_IS_SAFE = 'W', /* its file is on disk */
    SESSION_FORGOTTEN = 'D',
};
GSP_MUST_CHECK int gsp_sessions__note(struct gsp_sessions *sessions, enum session_change change,
                                      const struct session *s, uint64_t *mark, struct gsp_err *err);
gsp_journal_reader gsp_sessions__replay;
bool gsp_sessions__number(struct gsp_sv field, int64_t *out);
/* Writes the journal anew when most of it is past. */
void gsp_sessions__compact(struct gsp_sessions *sessions);

/* sessions_stacks.c */
void gsp_sessions__free_parts(struct session *s);
/* A line of the journal, if it is about a file of stacks. */
void gsp_sessions__replay_part(struct session *s, const struct gsp_sv *fields, size_t count);
/* The session's files of stacks as lines; worth how many. */
size_t gsp_sessions__put_parts(struct gsp_buf *out, const struct session *s);
/* An array of them as JSON; called with the lock. */
void gsp_sessions__parts_json(const struct session *s, struct gsp_json *json);
struct stacks_sums {
    uint32_t files;
    uint32_t gaps; /* times that a process was not looked at while no daemon ran */
    int64_t gap_ns;
    const struct stacks_part *failed; /* the first with an error; NULL: none */
};
void gsp_sessions__sum_parts(const struct session *s, struct stacks_sums *out);

/* sessions_tend.c */
void gsp_sessions__path(const struct gsp_sessions *sessions, const char *file, struct gsp_buf *out);
/* Chooses a file for a session of that name; false when there is no memory. */
bool gsp_sessions__choose_file(struct gsp_sessions *sessions, const char *name, bool force,
                               struct gsp_buf *out);
/* Gives the session another file when somebody has put one in its place; called with the lock,
 * before the journal says that a file of that name is ours. */
GSP_MUST_CHECK int gsp_sessions__settle_file(struct gsp_sessions *sessions, uint32_t slot,
                                             struct gsp_err *err);
/* Writes the file of a session that is busy; called without the lock. */
GSP_MUST_CHECK int gsp_sessions__write(struct gsp_sessions *sessions, struct session *s,
                                       struct gsp_err *err);
/* Tells the log which frames are needed; called with the lock.  Costs nothing when no session
 * changed: thousands of active ones are not looked at each second. */
void gsp_sessions__keep(struct gsp_sessions *sessions);
