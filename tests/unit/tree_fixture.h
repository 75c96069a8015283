/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_fixture.h -- a small /proc in a temporary folder, for functions with a root path.
 *
 * Threads: one owner.
 */
#pragma once

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attr.h"
#include "tap.h"

struct tree {
    char root[64];
};

GSP_UNUSED static void tree_new(struct tree *tree)
{
    snprintf(tree->root, sizeof(tree->root), "/tmp/gsprof-tree-XXXXXX");
    tap_require(mkdtemp(tree->root) != NULL);
}

/* Writes len bytes to root/path, and creates the folders. */
GSP_UNUSED static void tree_put_bytes(const struct tree *tree, const char *path, const char *bytes,
                                      size_t len)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s%s", tree->root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        tap_require(mkdir(full, 0777) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    tap_require(file != NULL);
    tap_require(fwrite(bytes, 1, len, file) == len);
    fclose(file);
}

GSP_UNUSED static void tree_put(const struct tree *tree, const char *path, const char *text)
{
    tree_put_bytes(tree, path, text, strlen(text));
}

static inline int tree_remove(const char *path, const struct stat *info, int kind,
                              struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

GSP_UNUSED static void tree_free(const struct tree *tree)
{
    tap_eq_int(nftw(tree->root, tree_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}
