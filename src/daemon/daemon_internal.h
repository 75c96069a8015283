/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon_internal.h -- the daemon's own state, for its files.
 *
 * daemon.c           open, start, stop
 * daemon_tick.c      the thread that collects and the one that tends
 * routes*.c          requests
 * targets.c          watched processes and recordings
 *
 * Threads: what each member says.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "collect/collect.h"
#include "daemon/daemon.h"
#include "daemon/daemon_rows.h"
#include "daemon/overheads.h"
#include "daemon/sessions.h"
#include "daemon/targets.h"
#include "frames/frames.h"
#include "http/server.h"

#define GSP_SOURCES_MAX 32U
#define GSP_HOST_MAX    256U

/* What a source said after the last tick. */
struct gsp_source_state {
    const char *name;
    const char *doc;
    bool open;
    char trouble[240];
};

struct gsp_daemon {
    struct gsp_settings settings; /* the live ones under lock */
    char host[GSP_HOST_MAX];
    char *token;                 /* NULL: none */
    int lock_fd;                 /* of the state folder */
    int place_fd;                /* of the rings; -1: none */
    int64_t start_ns;            /* CLOCK_REALTIME */
    int64_t start_mono_ns;       /* the same moment, of a clock that nobody sets */
    struct gsp_collect *collect; /* the collecting thread's */
    struct gsp_frames *frames;
    struct gsp_sessions *sessions;
    struct gsp_targets *targets;
    struct gsp_rows_out rows;
    struct gsp_http_server *server;
    pthread_t collector;
    pthread_t tender;
    pthread_mutex_t watch_lock; /* held while watched is made anew; taken before all others */
    pthread_mutex_t lock;       /* of all below, where not atomic */
    pthread_cond_t changed;
    pthread_cond_t framed;    /* frame_met has */
    char settings_error[240]; /* why the last SIGHUP changed nothing; "": it did */
    struct gsp_source_state sources[GSP_SOURCES_MAX];
    size_t source_count;
    struct gsp_overhead overheads[GSP_OVERHEADS_MAX];
    size_t overhead_count;
    int32_t *watched; /* processes to look at */
    size_t watched_count;
    struct gsp_buf status; /* the answer to /status, as of status_serial */
    uint64_t status_serial;
    _Atomic uint64_t serial; /* grows with everything that /status tells */
    _Atomic uint64_t ticks;
    _Atomic uint64_t late_ticks;
    _Atomic int64_t collect_ns; /* spent in ticks, CPU */
    _Atomic unsigned queries;   /* running */
    _Atomic bool status_asked;  /* since overheads were looked at */
    uint64_t frame_wanted; /* frames that were asked for, and how many of those wishes are met */
    uint64_t frame_met;
    int64_t last_tick_ns; /* CLOCK_MONOTONIC of the newest frame's begin */
    bool watch_changed;
    bool period_changed;
    bool settings_changed;
    bool stopping;
    bool has_collector;
    bool has_tender;
    bool has_lock;
    bool has_rows;
};

/* daemon_tick.c: threads, until stopping. */
void *gsp_daemon__collect(void *daemon);
void *gsp_daemon__tend(void *daemon);
/* The watched processes may have changed: asks sessions and targets. */
void gsp_daemon__rewatch(struct gsp_daemon *daemon);
/* Asks for a frame between two ticks, and does not wait for it; worth what gsp_daemon__last_frame()
 * waits for. */
uint64_t gsp_daemon__ask_frame(struct gsp_daemon *daemon);
/* Before the active session of that name ends, or with NULL all do: it has a frame of now, and two
 * at least.  Waits for them, some tens of milliseconds. */
void gsp_daemon__last_frame(struct gsp_daemon *daemon, const char *session);
/* What the answers of /status are made of has changed. */
void gsp_daemon__touch(struct gsp_daemon *daemon);
