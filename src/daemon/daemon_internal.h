/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_internal.h -- the state of the daemon, shared by its files.
 *
 * daemon.c           open, start, stop
 * daemon_threads.c   the collecting thread and the maintenance thread
 * routes*.c          requests
 * targets.c          watched processes and stack recordings
 *
 * Threads: see each member.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/lock.h"
#include "collect/collect.h"
#include "daemon/daemon.h"
#include "daemon/overheads.h"
#include "daemon/rows.h"
#include "daemon/sessions.h"
#include "daemon/targets.h"
#include "frames/log.h"
#include "http/server.h"

#define GSP_SOURCES_MAX 32U
#define GSP_HOST_MAX    256U

/* The state of a source after the last tick. */
struct gsp_source_state {
    const char *name;
    const char *doc;
    bool open;
    char trouble[240];
};

struct gsp_daemon {
    /* Set by gsp_daemon_open(), constant afterwards. */
    const struct gsp_settings_fixed *fixed; /* to fixed_storage */
    struct gsp_settings_fixed fixed_storage;
    char host[GSP_HOST_MAX];
    char url[96];
    char *token;           /* NULL: none */
    int lock_fd;           /* of the state folder */
    int ring_dir_fd;       /* of the ring directory; -1: none */
    int64_t start_ns;      /* CLOCK_REALTIME */
    int64_t start_mono_ns; /* the same time, CLOCK_MONOTONIC */
    struct gsp_frame_log *frames;
    struct gsp_sessions *sessions;
    struct gsp_targets *targets;
    struct gsp_http_server *server;

    struct gsp_collect *collect; /* of the collecting thread */
    struct gsp_daemon_rows rows; /* has its own lock */

    /* Serializes updates of `watched`. Taken before all other locks. */
    struct gsp_lock watch_lock;

    struct gsp_lock lock;
    pthread_cond_t changed; /* orders for the threads: stopping, *_changed, frame_wanted */
    pthread_cond_t framed;  /* frame_done changed */
    struct gsp_settings_live live GSP_GUARDED_BY(lock);
    char settings_error[240] GSP_GUARDED_BY(lock); /* why the last SIGHUP had no effect; "": none */
    struct gsp_source_state sources[GSP_SOURCES_MAX] GSP_GUARDED_BY(lock);
    size_t source_count GSP_GUARDED_BY(lock);
    struct gsp_overhead overheads[GSP_OVERHEADS_MAX] GSP_GUARDED_BY(lock);
    size_t overhead_count GSP_GUARDED_BY(lock);
    int32_t *watched GSP_GUARDED_BY(lock); /* processes whose metrics are collected */
    size_t watched_count GSP_GUARDED_BY(lock);
    struct gsp_buf status GSP_GUARDED_BY(lock);  /* the answer to /status */
    uint64_t status_serial GSP_GUARDED_BY(lock); /* `serial` + 1 when `status` was made */
    uint64_t frame_wanted GSP_GUARDED_BY(lock);  /* extra frames requested so far */
    uint64_t frame_done GSP_GUARDED_BY(lock);    /* requests that a frame has answered */
    int64_t last_tick_ns GSP_GUARDED_BY(lock);   /* CLOCK_MONOTONIC: start of the newest frame */
    bool watch_changed GSP_GUARDED_BY(lock);
    bool period_changed GSP_GUARDED_BY(lock);
    bool settings_changed GSP_GUARDED_BY(lock);
    bool stopping GSP_GUARDED_BY(lock);

    _Atomic uint64_t serial; /* grows with every change that /status shows */
    _Atomic uint64_t ticks;
    _Atomic uint64_t late_ticks;
    _Atomic int64_t collect_ns;         /* CPU time spent in ticks */
    _Atomic unsigned queries;           /* running */
    _Atomic unsigned anonymous_queries; /* of these */
    _Atomic unsigned drawings;          /* running workers of /flamegraph */
    _Atomic unsigned dumps;             /* running */
    _Atomic bool status_was_read;       /* since `overheads` was updated */

    /* What gsp_daemon_close() has to undo; of the owner. */
    pthread_t collector;
    pthread_t maintainer;
    bool has_collector;
    bool has_maintainer;
    bool has_conds;
    bool has_rows;
    bool has_state; /* holds the lock of the state folder */
};

/* A copy of the settings that can change at run time. */
struct gsp_settings_live gsp_daemon__live_settings(struct gsp_daemon *daemon);

/* daemon_threads.c: main functions of the threads. They return after gsp_daemon.stopping is set. */
void *gsp_daemon__collect(void *daemon);
void *gsp_daemon__maintain(void *daemon);
/* Updates the list of watched processes from sessions and targets. */
void gsp_daemon__watched_update(struct gsp_daemon *daemon);
/* Requests a frame between two ticks and does not wait for it. Returns the number of the request,
 * for gsp_daemon.frame_done. */
uint64_t gsp_daemon__frame_request(struct gsp_daemon *daemon);
/* Call this before the active session of that name (NULL: every session) ends: makes sure that it
 * has a current frame, and at least two frames. Waits for them, some tens of milliseconds. */
void gsp_daemon__frame_ensure_last(struct gsp_daemon *daemon, const char *session);
/* Call this when something that /status shows has changed. */
void gsp_daemon__status_changed(struct gsp_daemon *daemon);
