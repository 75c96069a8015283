/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "py/layout.h"
#include "py/layout_tables.h"

#define COOKIE            "xdebugpy"
#define COOKIE_LEN        8U
#define AT_VERSION        8U
#define BOUND_MIN         8U
#define BOUND_MAX         (64U << 20U)
/* The maximum distance of a field beyond twice its usual offset. Keeps the copied structs small. */
#define FAR_BYTES         4096U
/* The first version with remote execution (PEP 768), and the limits of its path buffer. */
#define REMOTE_EXEC_MINOR 14U
#define REMOTE_PATH_MIN   64U
#define REMOTE_PATH_MAX   4096U
#define PY_MAJOR(version) ((version) >> 24U)

/* A copy of _Py_DebugOffsets and the description of its version. */
struct source {
    const unsigned char *bytes;
    const struct gsp_py__debug_table *table;
    const struct gsp_py_layout *known; /* from the headers of this version */
};

static uint64_t word_at(const unsigned char *bytes, uint16_t at)
{
    uint64_t value = 0;
    memcpy(&value, bytes + at, sizeof(value));
    return value;
}

static uint32_t member_get(const struct gsp_py_layout *layout, const struct gsp_py__debug_field *f)
{
    const unsigned char *at = (const unsigned char *)layout + f->member;
    uint32_t wide = 0;
    uint16_t narrow = 0;
    if (f->width == sizeof(narrow)) {
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

static void member_set(struct gsp_py_layout *layout, const struct gsp_py__debug_field *f,
                       uint32_t value)
{
    unsigned char *at = (unsigned char *)layout + f->member;
    uint16_t narrow = (uint16_t)value;
    if (f->width == sizeof(narrow))
        memcpy(at, &narrow, sizeof(narrow));
    else
        memcpy(at, &value, sizeof(value));
}

static bool is_none(const struct gsp_py__debug_field *f, uint32_t value)
{
    return value == (f->width == sizeof(uint16_t) ? GSP_NO_OFFSET : UINT32_MAX);
}

/* A build with other options may have larger structs, but not much larger ones. */
static bool size_plausible(uint64_t value, uint32_t known)
{
    return value >= known / 2U && value <= 2ULL * known;
}

/* If two fields of one struct have the same offset, at least one is wrong. */
static bool is_repeated(const struct source *src, size_t index)
{
    const struct gsp_py__debug_field *fields = src->table->fields;
    uint64_t value = word_at(src->bytes, fields[index].at);
    for (size_t i = 0; i < index; i++)
        if (fields[i].bound == fields[index].bound && fields[i].at != GSP_NO_OFFSET &&
            !is_none(&fields[i], member_get(src->known, &fields[i])) &&
            word_at(src->bytes, fields[i].at) == value)
            return true;
    return false;
}

static bool offset_plausible(const struct source *src, size_t index)
{
    const struct gsp_py__debug_field *f = &src->table->fields[index];
    uint64_t value = word_at(src->bytes, f->at);
    uint64_t bound = word_at(src->bytes, f->bound);
    uint64_t farthest = 2ULL * member_get(src->known, f) + FAR_BYTES;
    return bound >= BOUND_MIN && bound <= BOUND_MAX && value <= farthest && value % f->align == 0 &&
           value + f->align <= bound && !is_repeated(src, index);
}

static int read_field(const struct source *src, size_t index, struct gsp_py_layout *out,
                      struct gsp_err *err)
{
    const struct gsp_py__debug_field *f = &src->table->fields[index];
    if (f->at == GSP_NO_OFFSET)
        return 0; /* the table has it */
    uint32_t known = member_get(src->known, f);
    if (is_none(f, known))
        return 0; /* this build does not have the member */
    uint64_t value = word_at(src->bytes, f->at);
    bool is_size = f->bound == GSP_NO_OFFSET;
    bool fits = value < (f->width == sizeof(uint16_t) ? GSP_NO_OFFSET : UINT32_MAX);
    if (!fits || !(is_size ? size_plausible(value, known) : offset_plausible(src, index))) {
        return gsp_err_set(err, GSP_E_FORMAT, 0,
                           "invalid debug offsets: byte %u is %" PRIu64
                           ", CPython 3.%u has %" PRIu32,
                           (unsigned)f->at, value, (unsigned)src->table->minor, known);
    }
    member_set(out, f, (uint32_t)value);
    return 0;
}

static const struct gsp_py__debug_table *find_table(uint32_t minor)
{
    for (size_t i = 0; i < gsp_py__debug_table_count; i++)
        if (gsp_py__debug_tables[i].minor == minor)
            return &gsp_py__debug_tables[i];
    return NULL;
}

/* The tables contain offsets of members after an object's header. They are valid only if the header
 * has the size that the tables assume (Py_TRACE_REFS builds differ). */
static int check_header(const struct gsp_py_layout *out, const struct gsp_py_layout *known,
                        struct gsp_err *err)
{
    if (out->object_size != known->object_size || out->object_type != known->object_type) {
        return gsp_err_set(err, GSP_E_FORMAT, 0,
                           "the object header has %u bytes instead of %u: a debug build",
                           (unsigned)out->object_size, (unsigned)known->object_size);
    }
    return 0;
}

static int find_source(const unsigned char *bytes, size_t len, struct source *out,
                       struct gsp_err *err)
{
    if (len < AT_VERSION + sizeof(uint64_t) || memcmp(bytes, COOKIE, COOKIE_LEN) != 0)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "no debug offsets at the start of the runtime");
    uint64_t version = word_at(bytes, AT_VERSION);
    uint32_t minor = GSP_PY_MINOR((uint32_t)version);
    out->bytes = bytes;
    out->table = version <= UINT32_MAX && PY_MAJOR(version) == 3 ? find_table(minor) : NULL;
    if (!out->table) {
        return gsp_err_set(err, GSP_E_VERSION, 0,
                           "debug offsets of CPython %u.%u; only 3.13 to 3.%u are supported",
                           (unsigned)PY_MAJOR((uint32_t)version), (unsigned)minor,
                           GSP_PY_MINOR_MAX);
    }
    uint64_t free_threaded = 0;
    if (len >= out->table->size)
        free_threaded = word_at(bytes, out->table->at_free_threaded);
    if (len < out->table->size || free_threaded > 1)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the runtime's debug offsets are malformed");
    out->known = gsp_py_layout_find(minor, free_threaded != 0);
    return out->known ? 0 : gsp_err_set(err, GSP_E_VERSION, 0, "no table for this build");
}

int gsp_py_debug_offsets_read(const void *bytes, size_t len, struct gsp_py_layout *out,
                              struct gsp_err *err)
{
    struct source src = {0};
    int rc = find_source(bytes, len, &src, err);
    if (rc != 0)
        return rc;
    struct gsp_py_layout layout = *src.known;
    layout.version = (uint32_t)word_at(bytes, AT_VERSION);
    for (size_t i = 0; i < src.table->field_count; i++) {
        rc = read_field(&src, i, &layout, err);
        if (rc != 0)
            return rc;
    }
    rc = check_header(&layout, src.known, err);
    if (rc != 0)
        return rc;
    /* The runtime's size of a code object includes one instruction. */
    layout.code_size = layout.code_code_adaptive;
    *out = layout;
    return 0;
}

/* The last struct of _Py_DebugOffsets in all versions that have it. */
enum {
    EXEC_EVAL_BREAKER,
    EXEC_SUPPORT,
    EXEC_ENABLED,
    EXEC_PENDING,
    EXEC_PATH,
    EXEC_PATH_SIZE,
    EXEC_WORDS
};

int gsp_py_remote_exec_read(const void *bytes, size_t len, struct gsp_py_remote_exec *out,
                            struct gsp_err *err)
{
    struct source src = {0};
    int rc = find_source(bytes, len, &src, err);
    if (rc != 0)
        return rc;
    if (src.table->minor < REMOTE_EXEC_MINOR) {
        return gsp_err_set(err, GSP_E_VERSION, 0,
                           "Python 3.%u does not support remote execution (PEP 768, 3.14+)",
                           (unsigned)src.table->minor);
    }
    uint64_t words[EXEC_WORDS];
    memcpy(words, src.bytes + src.table->size - sizeof(words), sizeof(words));
    const uint64_t thread = src.known->tstate_size;
    const uint64_t path = words[EXEC_SUPPORT] + words[EXEC_PATH];
    const uint64_t pending = words[EXEC_SUPPORT] + words[EXEC_PENDING];
    /* Builds differ in size, but no thread state is twice as large as in the headers. */
    if (words[EXEC_SUPPORT] > 2 * thread || words[EXEC_PATH] > thread ||
        words[EXEC_PENDING] > thread || words[EXEC_EVAL_BREAKER] % sizeof(uint64_t) != 0 ||
        words[EXEC_EVAL_BREAKER] >= thread || pending % sizeof(int32_t) != 0 || path <= pending ||
        words[EXEC_PATH_SIZE] < REMOTE_PATH_MIN || words[EXEC_PATH_SIZE] > REMOTE_PATH_MAX ||
        path + words[EXEC_PATH_SIZE] > 2 * thread || words[EXEC_ENABLED] % sizeof(int32_t) != 0 ||
        words[EXEC_ENABLED] > 2ULL * src.known->interp_size)
        return gsp_err_set(err, GSP_E_FORMAT, 0, "the offsets of remote execution are malformed");
    *out = (struct gsp_py_remote_exec){.eval_breaker = (uint32_t)words[EXEC_EVAL_BREAKER],
                                       .pending = (uint32_t)pending,
                                       .path = (uint32_t)path,
                                       .path_size = (uint32_t)words[EXEC_PATH_SIZE],
                                       .enabled = (uint32_t)words[EXEC_ENABLED]};
    return 0;
}
