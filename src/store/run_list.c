/* SPDX-License-Identifier: Apache-2.0 */
#include "store/run_list.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/file.h"

/* Limits: folders searched, and bytes of a meta.json. */
#define RUNS_MAX 1000U
#define META_MAX (4U << 20)

/* Returns the start time of a complete run of this command that did not fail; else 0. */
static int64_t start_of(const char *folder, const char *command)
{
    char path[GSP_RUN_PATH_MAX];
    gsp_auto_buf text = {0};
    if (gsp_store_run_path(path, folder, GSP_RUN_META, NULL) < 0 ||
        gsp_file_read_member(path, META_MAX, &text, NULL) < 0 || text.len == 0)
        return 0;
    yyjson_doc *doc = yyjson_read(text.p, text.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const bool matches = yyjson_equals_str(yyjson_obj_get(root, "command"), command) &&
                         yyjson_equals_str(yyjson_obj_get(root, "state"), "complete") &&
                         yyjson_get_sint(yyjson_obj_get(root, "status")) == 0;
    const int64_t start_ns = matches ? yyjson_get_sint(yyjson_obj_get(root, "start_ns")) : 0;
    yyjson_doc_free(doc);
    return start_ns;
}

void gsp_store_run_find_previous(const char *path, const char *command, char out[GSP_RUN_PATH_MAX])
{
    char parent[GSP_RUN_PATH_MAX];
    const struct gsp_sv own = gsp_store_run_name(path);
    const size_t len = (size_t)(own.p - path);
    int64_t newest_ns = 0;
    size_t searched = 0;
    out[0] = '\0';
    snprintf(parent, sizeof(parent), "%.*s", (int)len, path);
    DIR *dir = opendir(len ? parent : ".");
    if (!dir)
        return;
    for (const struct dirent *entry; searched < RUNS_MAX && (entry = readdir(dir));) {
        char folder[GSP_RUN_PATH_MAX];
        if (entry->d_name[0] == '.' || gsp_sv_eq(own, gsp_sv_of(entry->d_name)) ||
            snprintf(folder, sizeof(folder), "%s%s", parent, entry->d_name) >= (int)sizeof(folder))
            continue;
        searched++;
        const int64_t start_ns = start_of(folder, command);
        if (start_ns > newest_ns) {
            newest_ns = start_ns;
            memcpy(out, folder, sizeof(folder));
        }
    }
    closedir(dir);
}
