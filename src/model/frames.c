/* SPDX-License-Identifier: Apache-2.0 */
#include "model/frames.h"

#include <string.h>

#include "base/attr.h"

#define IMPORT_FILES "<frozen importlib._bootstrap" /* and ..._external> */
#define OWN_MARK     "<gsprof" /* python/gsprof/_quiet.py: wrappers without a file */
#define OWN_FOLDER   "/gsprof/"
#define OWN_START    "/python/start/sitecustomize.py"

/* In addition to modules whose names begin with an underscore. */
static const char *const OWN_FILES[] = {"errors.py", "notebook.py", "pytest_plugin.py"};
static const char *const OWN_PACKAGES[] = {"measure/", "profiler/", "torch/"};

bool gsp_model_file_is_import(struct gsp_sv file)
{
    return gsp_sv_starts(file, IMPORT_FILES);
}

bool gsp_model_file_is_own(struct gsp_sv file)
{
    const size_t len = sizeof(OWN_FOLDER) - 1;
    if (gsp_sv_starts(file, OWN_MARK) || gsp_sv_ends(file, OWN_START))
        return true;
    if (!gsp_sv_ends(file, ".py"))
        return false;
    /* The last folder of that name: a program may be inside one. */
    size_t at = file.len;
    while (at >= len && memcmp(file.p + at - len, OWN_FOLDER, len) != 0)
        at--;
    if (at < len)
        return false;
    struct gsp_sv rest = {file.p + at, file.len - at};
    for (size_t i = 0; i < GSP_COUNT(OWN_PACKAGES); i++) {
        if (gsp_sv_starts(rest, OWN_PACKAGES[i])) {
            rest.p += strlen(OWN_PACKAGES[i]);
            rest.len -= strlen(OWN_PACKAGES[i]);
            return memchr(rest.p, '/', rest.len) == NULL;
        }
    }
    for (size_t i = 0; i < GSP_COUNT(OWN_FILES); i++)
        if (gsp_sv_eq(rest, gsp_sv_of(OWN_FILES[i])))
            return true;
    return rest.p[0] == '_' && memchr(rest.p, '/', rest.len) == NULL;
}
