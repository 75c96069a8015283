/* SPDX-License-Identifier: Apache-2.0 */
#include "py/codes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/time.h"
#include "py/lines.h"
#include "py/object.h"

#define CODE_BYTES_MAX    512U /* sizeof(PyCodeObject) is about 200 */
#define NAME_BYTES_MAX    4096U
#define TABLE_BYTES_MAX   (4U << 20)
/* A larger line table is not kept: it is read again for each new location. */
#define TABLE_BYTES_KEPT  (16U << 10)
/* Bytes of such tables that one pass decodes. Locations beyond have no line. */
#define PASS_BYTES_MAX    (32U << 20)
/* Of all code objects: their texts, tables and entries. */
#define CACHE_BYTES_MAX   (64U << 20)
#define CODES_MAX         (1U << 20)
#define LOCS_MAX          (1U << 20)
#define DEAD_MAX          8192U
/* The first sightings of a code object, each of which checks it. */
#define EARLY_CHECKS      64U
/* Later it is checked after 1/64 of its age, but at least once a second. */
#define AGE_SHARE         64
#define CHECK_INTERVAL_NS GSP_NS_PER_S
#define BATCH             64U

static uint64_t word_at(const unsigned char *bytes, gsp_py_off off)
{
    uint64_t v = 0;
    if (off != GSP_NO_OFFSET && (size_t)off + 8 <= CODE_BYTES_MAX)
        memcpy(&v, bytes + off, 8);
    return v;
}

static uint32_t int_at(const unsigned char *bytes, gsp_py_off off)
{
    uint32_t v = 0;
    if (off != GSP_NO_OFFSET && (size_t)off + 4 <= CODE_BYTES_MAX)
        memcpy(&v, bytes + off, 4);
    return v;
}

static size_t header_bytes(const struct gsp_py_layout *lay)
{
    return lay->code_size < CODE_BYTES_MAX ? lay->code_size : CODE_BYTES_MAX;
}

static void mark_of(const struct gsp_py_layout *lay, const unsigned char *bytes,
                    struct gsp_py_code_mark *mark)
{
    mark->type = word_at(bytes, lay->object_type);
    mark->name = word_at(bytes, lay->code_name);
    mark->qualname = word_at(bytes, lay->code_qualname);
    mark->file = word_at(bytes, lay->code_filename);
    mark->table = word_at(bytes, lay->code_linetable);
    mark->first_line = int_at(bytes, lay->code_firstlineno);
    mark->stack_words = int_at(bytes, lay->code_stacksize);
}

static bool same_mark(const struct gsp_py_code_mark *a, const struct gsp_py_code_mark *b)
{
    return a->type == b->type && a->name == b->name && a->qualname == b->qualname &&
           a->file == b->file && a->table == b->table && a->name_hash == b->name_hash &&
           a->first_line == b->first_line && a->stack_words == b->stack_words;
}

void gsp_py__codes_init(struct gsp_py_codes *codes, struct gsp_mem *mem,
                        const struct gsp_py_runtime *run)
{
    *codes = (struct gsp_py_codes){.mem = mem, .run = run};
}

static void free_content(struct gsp_py_code *code)
{
    free(code->name);
    free(code->file);
    free(code->table);
    code->name = NULL;
    code->file = NULL;
    code->table = NULL;
}

static void free_large(struct gsp_py_codes *codes)
{
    free(codes->large.bytes);
    codes->large = (struct gsp_py_table){0};
    codes->large_bytes = 0;
}

static void clear(struct gsp_py_codes *codes)
{
    for (size_t i = 0; i < codes->code_count; i++)
        free_content(&codes->codes[i]);
    free_large(codes);
    codes->code_count = 0;
    codes->bytes = 0;
    codes->dead_count = 0;
    codes->loc_count = 0;
    gsp_hmap_clear(&codes->by_addr);
    gsp_hmap_clear(&codes->by_loc);
}

void gsp_py__codes_free(struct gsp_py_codes *codes)
{
    clear(codes);
    free(codes->codes);
    free(codes->locs);
    gsp_hmap_free(&codes->by_addr);
    gsp_hmap_free(&codes->by_loc);
    *codes = (struct gsp_py_codes){0};
}

bool gsp_py__codes_tidy(struct gsp_py_codes *codes)
{
    free_large(codes);
    /* One pass must fit into the rest. */
    if (codes->dead_count < DEAD_MAX && codes->loc_count < 3UL * LOCS_MAX / 4 &&
        codes->bytes < 3UL * CACHE_BYTES_MAX / 4)
        return false;
    clear(codes);
    codes->resets++;
    return true;
}

/* Copies the bytes of buf to a NUL-terminated string, which the caller frees. */
static char *copy_text(struct gsp_buf *buf, size_t *len)
{
    *len = buf->len;
    if (!gsp_buf_cstr(buf))
        return NULL;
    char *text = malloc(buf->len + 1);
    if (text)
        memcpy(text, gsp_buf_cstr(buf), buf->len + 1);
    return text;
}

static int read_text(struct gsp_py_codes *codes, gsp_raddr addr, char **out, size_t *len)
{
    gsp_auto_buf buf = {0};
    int rc = gsp_py__str_read(codes->mem, &codes->run->layout, addr, NAME_BYTES_MAX, &buf);
    if (rc != GSP_OK)
        return rc;
    *out = copy_text(&buf, len);
    return *out ? GSP_OK : GSP_E_NOMEM;
}

static int read_table(struct gsp_py_codes *codes, struct gsp_py_code *code)
{
    const struct gsp_py_layout *lay = &codes->run->layout;
    uint64_t len;
    int rc = gsp_proc_mem_read_u64(codes->mem, code->mark.table + lay->bytes_size, &len);
    if (rc != GSP_OK)
        return rc;
    if (len > TABLE_BYTES_MAX)
        return GSP_E_FORMAT;
    code->table_len = (size_t)len;
    if (len > TABLE_BYTES_KEPT)
        return GSP_OK;
    code->table = malloc(len ? (size_t)len : 1);
    if (!code->table)
        return GSP_E_NOMEM;
    return gsp_proc_mem_read(codes->mem, code->mark.table + lay->bytes_data, code->table,
                             (size_t)len);
}

/* Reads a table that is not kept. Code objects may share one, so the last one stays until the end
 * of the pass. */
static int read_large(struct gsp_py_codes *codes, const struct gsp_py_code *code)
{
    struct gsp_py_table *large = &codes->large;
    const gsp_raddr addr = code->mark.table + codes->run->layout.bytes_data;
    if (large->addr == addr && large->len == code->table_len)
        return GSP_OK;
    free(large->bytes);
    *large = (struct gsp_py_table){.bytes = malloc(code->table_len)};
    if (!large->bytes)
        return GSP_E_NOMEM;
    const int rc = gsp_proc_mem_read(codes->mem, addr, large->bytes, code->table_len);
    if (rc == GSP_OK) {
        large->addr = addr;
        large->len = code->table_len;
    }
    return rc;
}

/* Finds the line of an instruction. */
static int find_line(struct gsp_py_codes *codes, const struct gsp_py_code *code, uint32_t off,
                     int *out)
{
    const uint8_t *table = code->table;
    *out = GSP_PY_LINE_UNKNOWN;
    if (!table) {
        if (code->table_len > PASS_BYTES_MAX - codes->large_bytes)
            return GSP_OK;
        codes->large_bytes += (uint32_t)code->table_len;
        const int rc = read_large(codes, code);
        if (rc != GSP_OK)
            return rc;
        table = codes->large.bytes;
    }
    *out = gsp_py_line_of(codes->run->layout.lines, table, code->table_len, code->first_line, off);
    return GSP_OK;
}

static int read_code(struct gsp_py_codes *codes, gsp_raddr addr, struct gsp_py_code *code)
{
    const struct gsp_py_layout *lay = &codes->run->layout;
    unsigned char bytes[CODE_BYTES_MAX] = {0};
    int rc = gsp_proc_mem_read(codes->mem, addr, bytes, header_bytes(lay));
    if (rc != GSP_OK)
        return rc;
    mark_of(lay, bytes, &code->mark);
    if (codes->run->code_type && code->mark.type != codes->run->code_type)
        return GSP_E_FORMAT;
    code->addr = addr;
    code->first_line = code->mark.first_line;
    code->stack_words = code->mark.stack_words;
    code->instr_bytes = UINT32_MAX;
    if (lay->frames != GSP_PY_FRAMES_OBJECTS) {
        uint64_t units = word_at(bytes, lay->var_ob_size);
        if (units > UINT32_MAX / 4)
            return GSP_E_FORMAT;
        code->instr_bytes = (uint32_t)units * 2;
        code->instr_start = addr + lay->code_code_adaptive;
        code->locals_count = int_at(bytes, lay->code_nlocalsplus);
    }
    rc = gsp_proc_mem_read_u64(codes->mem, code->mark.name + lay->unicode_hash,
                               &code->mark.name_hash);
    if (rc == GSP_OK)
        rc = read_text(codes, code->mark.qualname ? code->mark.qualname : code->mark.name,
                       &code->name, &code->name_len);
    if (rc == GSP_OK)
        rc = read_text(codes, code->mark.file, &code->file, &code->file_len);
    return rc == GSP_OK ? read_table(codes, code) : rc;
}

/* If the call of a class is specialized, an internal frame of the interpreter is below the frame of
 * __init__ (3.13 and later). Its code has no file and no variables, not even self. */
static bool is_init_cleanup(const struct gsp_py_code *code)
{
    return code->locals_count == 0 && strcmp(code->name, "__init__") == 0 &&
           strcmp(code->file, "__init__") == 0;
}

/* What a code object uses here, with its entry in the map and the heads of its allocations. */
static size_t content_bytes(const struct gsp_py_code *code)
{
    const size_t heads = 48 + 2 * sizeof(struct gsp_map_slot);
    return sizeof(*code) + heads + code->name_len + code->file_len +
           (code->table ? code->table_len : 0);
}

static int push_code(struct gsp_py_codes *codes, const struct gsp_py_code *code, uint32_t *out)
{
    const size_t bytes = content_bytes(code);
    if (codes->code_count == CODES_MAX || bytes > CACHE_BYTES_MAX - codes->bytes)
        return GSP_E_LIMIT;
    if (!gsp_array_fit(&codes->codes, &codes->code_cap, codes->code_count + 1))
        return GSP_E_NOMEM;
    uint32_t index = (uint32_t)codes->code_count;
    if (!gsp_hmap_put(&codes->by_addr, code->addr, 0, index))
        return GSP_E_NOMEM;
    codes->codes[codes->code_count++] = *code;
    codes->bytes += bytes;
    *out = index;
    return GSP_OK;
}

int gsp_py_codes_get(struct gsp_py_codes *codes, gsp_raddr addr, int64_t now_ns, uint32_t *out)
{
    const uint32_t *known = gsp_hmap_get(&codes->by_addr, addr, 0);
    if (gsp_likely(known && codes->codes[*known].is_live)) {
        *out = *known;
        return GSP_OK;
    }
    struct gsp_py_code code = {.is_live = true, .seen_ns = now_ns, .due_ns = now_ns + 1};
    int rc = read_code(codes, addr, &code);
    if (rc == GSP_OK && is_init_cleanup(&code)) {
        codes->init_cleanup = addr;
        rc = GSP_E_TORN;
    }
    if (rc == GSP_OK)
        rc = push_code(codes, &code, out);
    if (rc != GSP_OK)
        free_content(&code);
    return rc;
}

/* The offset of an instruction in a thread's own copy of the bytecode: entry tlbc_index of the
 * array at co_tlbc {Py_ssize_t size; char *entries[]}. */
static int offset_in_copy(struct gsp_py_codes *codes, const struct gsp_py_code *code,
                          uint64_t instr, uint32_t tlbc_index, uint64_t *out)
{
    const struct gsp_py_layout *lay = &codes->run->layout;
    if (lay->code_tlbc == GSP_NO_OFFSET)
        return GSP_E_TORN;
    uint64_t array;
    uint64_t count;
    uint64_t start;
    int rc = gsp_proc_mem_read_u64(codes->mem, code->addr + lay->code_tlbc, &array);
    if (rc == GSP_OK)
        rc = gsp_proc_mem_read_u64(codes->mem, array, &count);
    if (rc == GSP_OK && tlbc_index >= count)
        return GSP_E_TORN;
    if (rc == GSP_OK)
        rc = gsp_proc_mem_read_u64(codes->mem, array + 8 + 8ULL * tlbc_index, &start);
    if (rc != GSP_OK)
        return rc;
    *out = instr - start;
    return instr >= start ? GSP_OK : GSP_E_TORN;
}

static int offset_of(struct gsp_py_codes *codes, const struct gsp_py_code *code, uint64_t instr,
                     uint32_t tlbc_index, uint64_t *out)
{
    const struct gsp_py_layout *lay = &codes->run->layout;
    if (lay->frames == GSP_PY_FRAMES_OBJECTS) {
        /* f_lasti is -1 before the first instruction; 3.10 counts instructions, not bytes. */
        int32_t lasti = (int32_t)instr;
        *out = lasti < 0 ? 0 : (uint64_t)lasti * (GSP_PY_MINOR(lay->version) == 10 ? 2 : 1);
        return GSP_OK;
    }
    /* The pointer of a frame of 3.11 and 3.12 that has not started is one unit before the first
     * instruction. */
    if (instr + 2 == code->instr_start) {
        *out = 0;
        return GSP_OK;
    }
    uint64_t off = instr - code->instr_start;
    if (instr < code->instr_start || off >= code->instr_bytes) {
        int rc = offset_in_copy(codes, code, instr, tlbc_index, &off);
        if (rc != GSP_OK)
            return rc;
    }
    *out = off;
    return off < code->instr_bytes ? GSP_OK : GSP_E_TORN;
}

/* Opcodes that leave a frame: RETURN_VALUE and RETURN_GENERATOR with argument 0, RETURN_CONST and
 * YIELD_VALUE with any argument. 0: the version has no such opcode. */
struct leaving {
    uint8_t value;
    uint8_t generator;
    uint8_t constant;
    uint8_t yield;
};

static const struct leaving LEAVING[] = {
    {83, 75, 0, 86}, {83, 75, 121, 150}, {36, 35, 103, 118}, {35, 34, 0, 120}, {33, 32, 0, 119}};
#define LEAVING_FIRST 11U

static bool is_leaving(struct gsp_py_codes *codes, uint64_t instr)
{
    const unsigned minor = GSP_PY_MINOR(codes->run->layout.version);
    unsigned char unit[2];
    if (minor < LEAVING_FIRST || minor >= LEAVING_FIRST + GSP_COUNT(LEAVING) ||
        gsp_proc_mem_read(codes->mem, instr, unit, sizeof(unit)) != GSP_OK || unit[0] == 0)
        return false;
    const struct leaving *by = &LEAVING[minor - LEAVING_FIRST];
    if (unit[0] == by->value || unit[0] == by->generator)
        return unit[1] == 0;
    return unit[0] == by->constant || unit[0] == by->yield;
}

int gsp_py__codes_loc(struct gsp_py_codes *codes, uint32_t code_index, uint64_t instr,
                      uint32_t tlbc_index, uint32_t *out)
{
    const uint32_t *known = gsp_hmap_get(&codes->by_loc, code_index, instr);
    if (gsp_likely(known != NULL)) {
        *out = *known;
        return GSP_OK;
    }
    struct gsp_py_code *code = &codes->codes[code_index];
    uint64_t off;
    int rc = offset_of(codes, code, instr, tlbc_index, &off);
    if (rc != GSP_OK)
        return rc;
    if (codes->loc_count == LOCS_MAX)
        return GSP_E_LIMIT;
    if (!gsp_array_fit(&codes->locs, &codes->loc_cap, codes->loc_count + 1))
        return GSP_E_NOMEM;
    int line;
    rc = find_line(codes, code, (uint32_t)off, &line);
    if (rc != GSP_OK)
        return rc;
    uint32_t index = (uint32_t)codes->loc_count;
    if (!gsp_hmap_put(&codes->by_loc, code_index, instr, index))
        return GSP_E_NOMEM;
    codes->locs[codes->loc_count++] = (struct gsp_py_loc){.code = code_index,
                                                          .line = line > 0 ? (uint32_t)line : 0,
                                                          .is_leaving = is_leaving(codes, instr),
                                                          .callee = GSP_PY_NO_LOC};
    *out = index;
    return GSP_OK;
}

/* The time of the next check. */
static int64_t next_due(const struct gsp_py_code *code, int64_t now_ns)
{
    if (code->checks < EARLY_CHECKS)
        return now_ns + 1;
    int64_t interval = (now_ns - code->seen_ns) / AGE_SHARE;
    return now_ns + (interval < CHECK_INTERVAL_NS ? interval : CHECK_INTERVAL_NS);
}

static void mark_dead(struct gsp_py_codes *codes, struct gsp_py_code *code)
{
    code->is_live = false;
    codes->dead_count++;
}

/* Compares the marks of a batch of live code objects. */
static bool check_batch(struct gsp_py_codes *codes, const uint32_t *due, size_t count,
                        int64_t now_ns)
{
    static const size_t PER_CODE = 2;
    struct gsp_mem_span spans[2 * BATCH] = {{0}};
    unsigned char bytes[BATCH][CODE_BYTES_MAX];
    uint64_t hashes[BATCH];
    const struct gsp_py_layout *lay = &codes->run->layout;
    for (size_t i = 0; i < count; i++) {
        const struct gsp_py_code *code = &codes->codes[due[i]];
        spans[PER_CODE * i] = (struct gsp_mem_span){code->addr, header_bytes(lay), bytes[i]};
        spans[PER_CODE * i + 1] =
            (struct gsp_mem_span){code->mark.name + lay->unicode_hash, 8, &hashes[i]};
    }
    size_t done = 0;
    int rc = gsp_proc_mem_gather(codes->mem, spans, PER_CODE * count, &done);
    bool all_same = rc == GSP_OK;
    for (size_t i = 0; i < count; i++) {
        struct gsp_py_code *code = &codes->codes[due[i]];
        struct gsp_py_code_mark mark = {0};
        if (done >= PER_CODE * (i + 1)) {
            mark_of(lay, bytes[i], &mark);
            mark.name_hash = hashes[i];
        }
        if (same_mark(&mark, &code->mark)) {
            code->checks++;
            code->due_ns = next_due(code, now_ns);
        } else if (code->is_live) {
            mark_dead(codes, code);
            all_same = false;
        }
    }
    return all_same;
}

bool gsp_py__codes_check(struct gsp_py_codes *codes, const uint32_t *indices, size_t count,
                         int64_t now_ns)
{
    uint32_t due[BATCH];
    size_t n = 0;
    bool all_same = true;
    for (size_t i = 0; i < count; i++) {
        struct gsp_py_code *code = &codes->codes[indices[i]];
        if (gsp_likely(now_ns < code->due_ns))
            continue;
        due[n++] = indices[i];
        if (n == BATCH) {
            all_same = check_batch(codes, due, n, now_ns) && all_same;
            n = 0;
        }
    }
    if (n > 0)
        all_same = check_batch(codes, due, n, now_ns) && all_same;
    return all_same;
}

const struct gsp_py_code *gsp_py_codes_at(const struct gsp_py_codes *codes, uint32_t i)
{
    gsp_assert(i < codes->code_count);
    return &codes->codes[i];
}

struct gsp_py_loc *gsp_py_codes_loc_at(struct gsp_py_codes *codes, uint32_t loc)
{
    gsp_assert(loc < codes->loc_count);
    return &codes->locs[loc];
}
