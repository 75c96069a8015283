/* SPDX-License-Identifier: Apache-2.0 */
#include "native/namer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/lock.h"
#include "base/thread.h"
#include "native/native_internal.h"

struct ticket {
    const struct gsp_native_file *file; /* the owner's; its fd, path and pid are constant */
    uint64_t vaddr;
    uint64_t bias;
    struct gsp_native_symbol symbol;
    _Atomic bool is_done;
    struct ticket *next; /* in the queue */
};

/* A file of the owner, and the background thread's own instance of it. */
struct own {
    const struct gsp_native_file *file;
    struct gsp_native_file *own;
};

struct gsp_native_namer {
    struct ticket **tickets;
    size_t count;
    size_t cap;
    bool has_thread;
    pthread_t thread;
    struct gsp_lock lock;
    pthread_cond_t requested;
    pthread_cond_t finished;
    struct ticket *first GSP_GUARDED_BY(lock); /* the queue */
    struct ticket *last GSP_GUARDED_BY(lock);
    bool is_ending GSP_GUARDED_BY(lock);
    /* Used only by the background thread. */
    struct gsp_native_store *store;
    struct own *files;
    size_t file_count;
    size_t file_cap;
};

/* The background thread's instance of a file; NULL if not available. */
static struct gsp_native_file *open_own(struct gsp_native_namer *namer,
                                        const struct gsp_native_file *file)
{
    for (size_t i = 0; i < namer->file_count; i++)
        if (namer->files[i].file == file)
            return namer->files[i].own;
    if (!gsp_array_fit(&namer->files, &namer->file_cap, namer->file_count + 1))
        return NULL;
    int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    struct gsp_native_file *own =
        fd >= 0 ? gsp_native__file_open(namer->store, fd, file->path, file->pid) : NULL;
    namer->files[namer->file_count++] = (struct own){file, own};
    return own;
}

static void symbolize(struct gsp_native_namer *namer, struct ticket *ticket)
{
    struct gsp_native_file *own = open_own(namer, ticket->file);
    if (own)
        gsp_native__describe(namer->store, own, ticket->vaddr, ticket->bias, &ticket->symbol);
    /* Partner: gsp_native_namer_get(). */
    atomic_store_explicit(&ticket->is_done, true, memory_order_release);
}

static void *run(void *user)
{
    struct gsp_native_namer *namer = user;
    gsp_lock_take(&namer->lock);
    while (!namer->is_ending) {
        struct ticket *ticket = namer->first;
        if (!ticket) {
            gsp_lock_wait(&namer->lock, &namer->requested);
            continue;
        }
        namer->first = ticket->next;
        if (!namer->first)
            namer->last = NULL;
        gsp_lock_release(&namer->lock);
        symbolize(namer, ticket);
        gsp_lock_take(&namer->lock);
        pthread_cond_broadcast(&namer->finished);
    }
    gsp_lock_release(&namer->lock);
    return NULL;
}

int gsp_native_namer_new(struct gsp_native_namer **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_native_namer *namer = calloc(1, sizeof(*namer));
    if (!namer)
        return gsp_err_nomem(err);
    pthread_cond_init(&namer->requested, NULL);
    pthread_cond_init(&namer->finished, NULL);
    int rc = gsp_native_store_new(&namer->store, err);
    if (rc != GSP_OK) {
        gsp_native_namer_free(namer);
        return rc;
    }
    /* Without a background thread the owner symbolizes. */
    namer->has_thread = gsp_thread_start(&namer->thread, run, namer) == 0;
    *out = namer;
    return GSP_OK;
}

void gsp_native_namer_free(struct gsp_native_namer *namer)
{
    if (!namer)
        return;
    if (namer->has_thread) {
        gsp_lock_take(&namer->lock);
        namer->is_ending = true;
        pthread_cond_signal(&namer->requested);
        gsp_lock_release(&namer->lock);
        pthread_join(namer->thread, NULL);
    }
    pthread_cond_destroy(&namer->finished);
    pthread_cond_destroy(&namer->requested);
    gsp_native_store_free(namer->store);
    for (size_t i = 0; i < namer->count; i++)
        free(namer->tickets[i]);
    free(namer->tickets);
    free(namer->files);
    free(namer);
}

static struct ticket *add_ticket(struct gsp_native_namer *namer)
{
    if (namer->count >= GSP_NATIVE_NO_TICKET ||
        !gsp_array_fit(&namer->tickets, &namer->cap, namer->count + 1))
        return NULL;
    struct ticket *ticket = calloc(1, sizeof(*ticket));
    if (ticket)
        namer->tickets[namer->count++] = ticket;
    return ticket;
}

uint32_t gsp_native_namer_request(struct gsp_native_namer *namer, struct gsp_native *native,
                                  uint64_t pc)
{
    struct ticket *ticket = add_ticket(namer);
    if (!ticket)
        return GSP_NATIVE_NO_TICKET;
    ticket->symbol.module = "";
    ticket->file = gsp_native__locate(native, pc, &ticket->bias, &ticket->symbol.module);
    ticket->vaddr = pc - ticket->bias;
    /* An image copied from memory is small and has no file to open again. */
    if (!ticket->file || ticket->file->fd < 0 || !namer->has_thread) {
        gsp_ignore(gsp_native_symbol(native, pc, &ticket->symbol));
        ticket->is_done = true;
    } else {
        gsp_lock_take(&namer->lock);
        if (namer->last)
            namer->last->next = ticket;
        else
            namer->first = ticket;
        namer->last = ticket;
        pthread_cond_signal(&namer->requested);
        gsp_lock_release(&namer->lock);
    }
    return (uint32_t)(namer->count - 1);
}

const struct gsp_native_symbol *gsp_native_namer_get(const struct gsp_native_namer *namer,
                                                     uint32_t ticket)
{
    gsp_assert(ticket < namer->count);
    const struct ticket *at = namer->tickets[ticket];
    /* Partner: symbolize(). */
    return atomic_load_explicit(&at->is_done, memory_order_acquire) ? &at->symbol : NULL;
}

void gsp_native_namer_wait(struct gsp_native_namer *namer, uint32_t ticket)
{
    gsp_lock_take(&namer->lock);
    while (!gsp_native_namer_get(namer, ticket))
        gsp_lock_wait(&namer->lock, &namer->finished);
    gsp_lock_release(&namer->lock);
}
