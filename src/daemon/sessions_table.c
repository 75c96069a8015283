/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/assert.h"
#include "daemon/sessions_internal.h"

/* Names of removed sessions that a hash table may hold before it is rebuilt. */
#define DEAD_MAX 1024U

void gsp_daemon__sessions_free_session(struct session *s)
{
    if (!s)
        return;
    free(s->name);
    free(s->file);
    free(s->labels);
    free(s->error);
    free(s->pids);
    gsp_daemon__sessions_free_parts(s);
    free(s);
}

/* Two hashes of 64 bits identify the text. */
static uint32_t *find(const struct gsp_hmap *map, const char *text)
{
    size_t len = strlen(text);
    return gsp_hmap_get(map, gsp_hash_bytes(text, len, 1), gsp_hash_bytes(text, len, 2));
}

static bool put(struct gsp_hmap *map, const char *text, uint32_t slot)
{
    size_t len = strlen(text);
    return gsp_hmap_put(map, gsp_hash_bytes(text, len, 1), gsp_hash_bytes(text, len, 2), slot);
}

uint32_t gsp_daemon__sessions_by_name(const struct gsp_sessions *sessions, const char *name)
{
    const uint32_t *found = find(&sessions->names, name);
    return found ? *found : SESSION_NONE;
}

uint32_t gsp_daemon__sessions_by_file(const struct gsp_sessions *sessions, const char *file)
{
    const uint32_t *found = find(&sessions->files, file);
    return found ? *found : SESSION_NONE;
}

uint32_t gsp_daemon__sessions_slot_of(const struct gsp_sessions *sessions, const struct session *s)
{
    for (size_t i = 0; i < sessions->slot_count; i++)
        if (sessions->slots[i] == s)
            return (uint32_t)i;
    return SESSION_NONE;
}

static uint32_t free_slot(struct gsp_sessions *sessions) GSP_REQUIRES(&sessions->lock)
{
    if (sessions->live < sessions->slot_count)
        return gsp_daemon__sessions_slot_of(sessions, NULL);
    if (!gsp_array_fit(&sessions->slots, &sessions->slot_cap, sessions->slot_count + 1))
        return SESSION_NONE;
    sessions->slots[sessions->slot_count] = NULL;
    return (uint32_t)sessions->slot_count++;
}

/* Rebuilds the hash tables without the names of removed sessions: a hash table cannot delete. */
static void clean_maps(struct gsp_sessions *sessions) GSP_REQUIRES(&sessions->lock)
{
    if (sessions->names.count < 2 * sessions->live + DEAD_MAX &&
        sessions->files.count < 2 * sessions->live + DEAD_MAX)
        return;
    gsp_hmap_clear(&sessions->names);
    gsp_hmap_clear(&sessions->files);
    for (size_t i = 0; i < sessions->slot_count; i++) {
        const struct session *s = sessions->slots[i];
        if (!s)
            continue;
        uint32_t other = gsp_daemon__sessions_by_name(sessions, s->name);
        /* Cannot fail: the tables held more before. */
        if (other == SESSION_NONE || sessions->slots[other]->id < s->id)
            gsp_ignore(!put(&sessions->names, s->name, (uint32_t)i));
        gsp_ignore(!put(&sessions->files, s->file, (uint32_t)i));
    }
}

uint32_t gsp_daemon__sessions_insert(struct gsp_sessions *sessions, struct session *s)
{
    clean_maps(sessions);
    uint32_t slot = free_slot(sessions);
    if (slot == SESSION_NONE)
        return SESSION_NONE;
    uint32_t older = gsp_daemon__sessions_by_name(sessions, s->name);
    if (!put(&sessions->names, s->name, slot))
        return SESSION_NONE;
    if (!put(&sessions->files, s->file, slot)) {
        gsp_ignore(!put(&sessions->names, s->name, older)); /* the key exists: needs no memory */
        return SESSION_NONE;
    }
    sessions->slots[slot] = s;
    sessions->live++;
    sessions->counts[s->state]++;
    sessions->anonymous_active += s->anonymous && s->state == SESSION_ACTIVE;
    sessions->moved = true;
    sessions->changes++;
    return slot;
}

void gsp_daemon__sessions_remove(struct gsp_sessions *sessions, uint32_t slot)
{
    struct session *s = sessions->slots[slot];
    gsp_lock_assert_held(&sessions->lock);
    gsp_assert(!s->busy);
    sessions->slots[slot] = NULL;
    sessions->live--;
    sessions->counts[s->state]--;
    sessions->anonymous_active -= s->anonymous && s->state == SESSION_ACTIVE;
    sessions->moved = true;
    sessions->changes++;
    uint32_t *file = find(&sessions->files, s->file);
    if (file && *file == slot)
        *file = SESSION_NONE;
    uint32_t *name = find(&sessions->names, s->name);
    if (name && *name == slot) {
        *name = SESSION_NONE;
        for (size_t i = 0; i < sessions->slot_count; i++) {
            const struct session *other = sessions->slots[i];
            if (other && strcmp(other->name, s->name) == 0 &&
                (*name == SESSION_NONE || sessions->slots[*name]->id < other->id))
                *name = (uint32_t)i;
        }
    }
    gsp_daemon__sessions_free_session(s);
}

/* ENDED follows itself if the file could not be written, ACTIVE follows it if the end could not be
 * synced, and DONE follows it only when the journal is read. */
GSP_UNUSED static bool can_follow(enum session_state before, enum session_state after)
{
    switch (before) {
    case SESSION_ACTIVE:
        return after == SESSION_ENDED;
    case SESSION_ENDED:
        return true;
    case SESSION_WRITTEN:
        return after == SESSION_DONE;
    case SESSION_DONE:
    case SESSION_STATES:
    default:
        return false;
    }
}

void gsp_daemon__sessions_set_state(struct gsp_sessions *sessions, struct session *s,
                                    enum session_state state)
{
    gsp_lock_assert_held(&sessions->lock);
    gsp_assert(can_follow(s->state, state));
    sessions->counts[s->state]--;
    sessions->counts[state]++;
    sessions->anonymous_active -= s->anonymous && s->state == SESSION_ACTIVE;
    sessions->anonymous_active += s->anonymous && state == SESSION_ACTIVE;
    s->state = state;
    sessions->moved = true;
    sessions->changes++;
}

bool gsp_daemon__sessions_set_file(struct gsp_sessions *sessions, uint32_t slot, const char *file)
{
    struct session *s = sessions->slots[slot];
    if (strcmp(s->file, file) == 0)
        return true;
    char *copy = strdup(file);
    if (!copy || !put(&sessions->files, file, slot)) {
        free(copy);
        return false;
    }
    uint32_t *old = find(&sessions->files, s->file);
    if (old && *old == slot)
        *old = SESSION_NONE;
    free(s->file);
    s->file = copy;
    return true;
}
