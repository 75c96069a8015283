/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c -- runs a fuzz target over the empty input, every file of its corpus and a few
 * damaged copies of each, without libFuzzer.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define INPUT_MAX     (4u << 20)
#define DAMAGED_COUNT 48

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Passes a copy of the exact size, so that a sanitizer detects every read past its end. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Causes the same damage in every run, so that failures are reproducible. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void run_damaged(uint8_t *data, size_t size)
{
    uint32_t state = (uint32_t)size;
    for (int i = 0; i < DAMAGED_COUNT && size; i++) {
        size_t at = next_random(&state) % size;
        if (i % 3 == 0) {
            run(data, at);
            continue;
        }
        uint8_t saved = data[at];
        data[at] = i % 3 == 1 ? (uint8_t)next_random(&state) : (uint8_t)(saved ^ 0x80u);
        run(data, size);
        data[at] = saved;
    }
}

static bool replay(const char *folder, const char *name)
{
    gsp_auto_buf path = {0};
    gsp_auto_buf data = {0};
    struct gsp_err err = {0};
    gsp_buf_printf(&path, "%s/%s", folder, name);
    const char *text = gsp_buf_cstr(&path);
    if (!text || gsp_file_read(text, INPUT_MAX, &data, &err) != 0) {
        fprintf(stderr, "%s\n", err.msg);
        return false;
    }
    printf("%s\n", name); /* names the input if the next call crashes */
    fflush(stdout);
    run((const uint8_t *)data.p, data.len);
    run_damaged((uint8_t *)data.p, data.len);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 64;
    }
    run(NULL, 0);
    DIR *dir = opendir(argv[1]);
    if (!dir) {
        perror(argv[1]);
        return 66;
    }
    size_t count = 0;
    bool ok = true;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        ok = replay(argv[1], entry->d_name) && ok;
        count++;
    }
    closedir(dir);
    printf("%zu inputs\n", count);
    return ok && count > 0 ? 0 : 1;
}
