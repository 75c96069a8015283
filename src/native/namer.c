/* SPDX-License-Identifier: Apache-2.0 */
#include "native/namer.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "native/native_internal.h"

struct ticket {
    const struct gsp_native_file *file; /* the owner's; its descriptor, path and pid never change */
    uint64_t vaddr;
    uint64_t bias;
    struct gsp_native_symbol symbol;
    _Atomic bool is_done;
    struct ticket *next; /* in the queue */
};

/* A file as the thread has it. */
struct own {
    const struct gsp_native_file *file;
    struct gsp_native_file *own;
};

struct gsp_namer {
    struct ticket **tickets;
    size_t count;
    size_t cap;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t asked;
    pthread_cond_t answered;
    struct ticket *first;
    struct ticket *last;
    bool is_ending;
    /* The thread's. */
    struct gsp_native_store *store;
    struct own *files;
    size_t file_count;
};

/* The thread's own view of a file; NULL when there is none. */
static struct gsp_native_file *open_own(struct gsp_namer *namer, const struct gsp_native_file *file)
{
    for (size_t i = 0; i < namer->file_count; i++) {
        if (namer->files[i].file == file)
            return namer->files[i].own;
    }
    struct own *grown = realloc(namer->files, (namer->file_count + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    namer->files = grown;
    int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    struct gsp_native_file *own =
        fd >= 0 ? gsp_native__file_open(namer->store, fd, file->path, file->pid) : NULL;
    namer->files[namer->file_count++] = (struct own){file, own};
    return own;
}

static void answer(struct gsp_namer *namer, struct ticket *ticket)
{
    struct gsp_native_file *own = open_own(namer, ticket->file);
    if (own)
        gsp_native__describe(namer->store, own, ticket->vaddr, ticket->bias, &ticket->symbol);
    /* Partner: gsp_namer_get(). */
    atomic_store_explicit(&ticket->is_done, true, memory_order_release);
}

static void *work(void *user)
{
    struct gsp_namer *namer = user;
    pthread_mutex_lock(&namer->lock);
    while (!namer->is_ending) {
        struct ticket *ticket = namer->first;
        if (!ticket) {
            pthread_cond_wait(&namer->asked, &namer->lock);
            continue;
        }
        namer->first = ticket->next;
        if (!namer->first)
            namer->last = NULL;
        pthread_mutex_unlock(&namer->lock);
        answer(namer, ticket);
        pthread_mutex_lock(&namer->lock);
        pthread_cond_broadcast(&namer->answered);
    }
    pthread_mutex_unlock(&namer->lock);
    return NULL;
}

int gsp_namer_new(struct gsp_namer **out, struct gsp_err *err)
{
    *out = NULL;
    struct gsp_namer *namer = calloc(1, sizeof(*namer));
    if (!namer)
        return gsp_err_set(err, GSP_E_NOMEM, 0, "out of memory");
    pthread_mutex_init(&namer->lock, NULL);
    pthread_cond_init(&namer->asked, NULL);
    pthread_cond_init(&namer->answered, NULL);
    int rc = gsp_native_store_new(&namer->store, err);
    if (rc != GSP_OK) {
        gsp_namer_free(namer);
        return rc;
    }
    /* Signals are for the thread that records. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* Without a thread names are found by the owner. */
    namer->has_thread = pthread_create(&namer->thread, NULL, work, namer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *out = namer;
    return GSP_OK;
}

void gsp_namer_free(struct gsp_namer *namer)
{
    if (!namer)
        return;
    if (namer->has_thread) {
        pthread_mutex_lock(&namer->lock);
        namer->is_ending = true;
        pthread_cond_signal(&namer->asked);
        pthread_mutex_unlock(&namer->lock);
        pthread_join(namer->thread, NULL);
    }
    pthread_cond_destroy(&namer->answered);
    pthread_cond_destroy(&namer->asked);
    pthread_mutex_destroy(&namer->lock);
    gsp_native_store_free(namer->store);
    for (size_t i = 0; i < namer->count; i++)
        free(namer->tickets[i]);
    free(namer->tickets);
    free(namer->files);
    free(namer);
}

static struct ticket *add_ticket(struct gsp_namer *namer)
{
    if (namer->count == namer->cap) {
        size_t cap = namer->cap ? namer->cap * 2 : 1024;
        struct ticket **grown =
            cap < GSP_NO_TICKET ? realloc(namer->tickets, cap * sizeof(struct ticket *)) : NULL;
        if (!grown)
            return NULL;
        namer->tickets = grown;
        namer->cap = cap;
    }
    struct ticket *ticket = calloc(1, sizeof(*ticket));
    if (ticket)
        namer->tickets[namer->count++] = ticket;
    return ticket;
}

uint32_t gsp_namer_ask(struct gsp_namer *namer, struct gsp_native *native, uint64_t pc)
{
    struct ticket *ticket = add_ticket(namer);
    if (!ticket)
        return GSP_NO_TICKET;
    ticket->symbol.module = "";
    ticket->file = gsp_native__place(native, pc, &ticket->bias, &ticket->symbol.module);
    ticket->vaddr = pc - ticket->bias;
    /* An image that was copied from memory is small, and the owner's. */
    if (!ticket->file || ticket->file->fd < 0 || !namer->has_thread) {
        gsp_ignore(gsp_native_symbol(native, pc, &ticket->symbol));
        ticket->is_done = true;
    } else {
        pthread_mutex_lock(&namer->lock);
        if (namer->last)
            namer->last->next = ticket;
        else
            namer->first = ticket;
        namer->last = ticket;
        pthread_cond_signal(&namer->asked);
        pthread_mutex_unlock(&namer->lock);
    }
    return (uint32_t)(namer->count - 1);
}

const struct gsp_native_symbol *gsp_namer_get(const struct gsp_namer *namer, uint32_t ticket)
{
    const struct ticket *at = namer->tickets[ticket];
    /* Partner: answer(). */
    return atomic_load_explicit(&at->is_done, memory_order_acquire) ? &at->symbol : NULL;
}

void gsp_namer_wait(struct gsp_namer *namer, uint32_t ticket)
{
    pthread_mutex_lock(&namer->lock);
    while (!gsp_namer_get(namer, ticket))
        pthread_cond_wait(&namer->answered, &namer->lock);
    pthread_mutex_unlock(&namer->lock);
}
