/* SPDX-License-Identifier: Apache-2.0 */
/* A library to load into a target. It uses memory, vector registers and files like a real one and
 * writes a line to a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int probe_enter(const char *path, const char *text);
__attribute__((visibility("default"))) int probe_crash(const char *path, const char *text);

int probe_enter(const char *path, const char *text)
{
    double sum = 0;
    for (int i = 0; i < 100; i++) {
        char *block = malloc((size_t)(i + 1) * 64U);
        if (!block)
            return -1;
        memset(block, i, (size_t)(i + 1) * 64U);
        sum += (double)block[i] * 0.5;
        free(block);
    }
    FILE *file = fopen(path, "ae");
    if (!file)
        return -2;
    fprintf(file, "%s %.1f\n", text ? text : "none", sum);
    return fclose(file) == 0 ? 42 : -3;
}

int probe_crash(const char *path, const char *text)
{
    if (path || text)
        __builtin_trap();
    return 0;
}
