/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_internal.h -- shared by image.c and image_file.c.
 *
 * Threads: one owner.
 */
#pragma once

#include <elf.h>

#include "proc/image.h"

#define GSP_IMAGE_SEGMENTS_MAX 32U

struct gsp_image {
    pid_t pid;
    struct gsp_mem *mem;
    const struct gsp_map *map;
    uint64_t bias; /* target address minus file address */
    size_t segment_count;
    Elf64_Phdr segments[GSP_IMAGE_SEGMENTS_MAX]; /* PT_LOAD only */

    /* From PT_DYNAMIC, as addresses in the target; 0 if absent. */
    gsp_raddr symtab;
    gsp_raddr strtab;
    uint64_t strtab_len;
    gsp_raddr gnu_hash;
    gsp_raddr sysv_hash;

    bool file_tried;
    int file_fd; /* -1: not available */
    void *elf;   /* Elf *, owned by image_file.c */
};

void gsp_proc__image_file_close(struct gsp_image *image);
