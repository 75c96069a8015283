/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_file.h -- creates a file `memory` like the agent's memory engine, for tests of readers.
 *
 * Threads: one owner.
 */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/memory.h"

struct memory_file {
    char folder[64];
    int folder_fd;
    struct gsp_memory_head *head;
    size_t bytes;
};

static inline char *memory_area(struct memory_file *file, uint64_t off)
{
    return (char *)file->head + off;
}

static inline struct gsp_memory_site *memory_site(struct memory_file *file, uint32_t i)
{
    return (struct gsp_memory_site *)(void *)memory_area(file, file->head->sites_off) + i;
}

static inline void memory_file_open(struct memory_file *file, enum gsp_memory_mode mode)
{
    const struct gsp_memory_capacity room = {8192, 64, 64, 64};
    *file = (struct memory_file){.bytes = gsp_wire_memory_bytes(&room)};
    strcpy(file->folder, "/tmp/gsprof-test-XXXXXX");
    if (!mkdtemp(file->folder))
        abort();
    file->folder_fd = open(file->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fd = openat(file->folder_fd, GSP_MEMORY_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)file->bytes) < 0)
        abort();
    file->head = mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (file->head == MAP_FAILED)
        abort();
    gsp_wire_memory_init(file->head, &room);
    file->head->mode = mode;
    file->head->pid = 4242;
    file->head->interval_bytes = mode == GSP_MEMORY_EXACT ? 0 : 1 << 19;
    file->head->state = GSP_MEMORY_ON;
}

static inline void memory_file_close(struct memory_file *file)
{
    munmap(file->head, file->bytes);
    unlinkat(file->folder_fd, GSP_MEMORY_FILE, 0);
    close(file->folder_fd);
    rmdir(file->folder);
}

static inline uint32_t memory_text(struct memory_file *file, const char *text)
{
    const uint32_t at = (file->head->strings_used + 3) / 4 * 4;
    const struct gsp_sv sv = gsp_sv_of(text);
    const uint32_t len = (uint32_t)sv.len;
    char *p = memory_area(file, file->head->strings_off) + at;
    memcpy(p, &len, sizeof(len));
    memcpy(p + sizeof(len), sv.p, sv.len);
    file->head->strings_used = at + (uint32_t)sizeof(len) + len;
    return at;
}

static inline uint32_t memory_frame(struct memory_file *file, uint32_t kind, const char *name,
                                    uint32_t line)
{
    const uint32_t i = file->head->frame_count;
    struct gsp_memory_frame *frame =
        (struct gsp_memory_frame *)(void *)memory_area(file, file->head->frames_off) + i;
    *frame = (struct gsp_memory_frame){.line = line, .kind = kind};
    if (kind == GSP_MEMORY_PYTHON)
        frame->file = memory_text(file, "/app/train.py");
    if (name)
        frame->name = memory_text(file, name);
    file->head->frame_count = i + 1;
    return i;
}

static inline uint32_t memory_node(struct memory_file *file, uint32_t parent, uint32_t frame)
{
    const uint32_t i = file->head->node_count;
    struct gsp_memory_node *node =
        (struct gsp_memory_node *)(void *)memory_area(file, file->head->nodes_off) + i;
    *node = (struct gsp_memory_node){parent, frame};
    file->head->node_count = i + 1;
    return i;
}

static inline uint32_t memory_new_site(struct memory_file *file, uint32_t node, uint32_t allocator)
{
    const uint32_t i = file->head->site_count;
    *memory_site(file, i) = (struct gsp_memory_site){.node = node, .allocator = allocator};
    file->head->site_count = i + 1;
    return i;
}

/* Adds or, if bytes is negative, frees a block, like the engine in exact mode. */
static inline void memory_change(struct memory_file *file, uint32_t i, int64_t bytes)
{
    struct gsp_memory_head *head = file->head;
    struct gsp_memory_site *site = memory_site(file, i);
    if (site->peak_epoch != head->peak_epoch) {
        site->peak_bytes = site->alloc_bytes - site->free_bytes;
        site->peak_count = site->alloc_count - site->free_count;
        site->peak_epoch = head->peak_epoch;
    }
    struct gsp_memory_total *total = &head->total[site->allocator];
    if (bytes > 0) {
        site->alloc_bytes += (uint64_t)bytes;
        site->alloc_count += 1;
        total->alloc_bytes += (uint64_t)bytes;
        total->alloc_count += 1;
    } else {
        site->free_bytes += (uint64_t)-bytes;
        site->free_count += 1;
        total->free_bytes += (uint64_t)-bytes;
        total->free_count += 1;
    }
    head->live_bytes += (uint64_t)bytes;
    if (head->live_bytes > head->peak_bytes) {
        head->peak_bytes = head->live_bytes;
        head->peak_epoch += 1;
    }
}
