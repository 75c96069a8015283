/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/mem_walk.h"

#include <string.h>

#include "agent/mem_tables.h"

/* Frames kept of a stack. Of a deeper one: the innermost, a cut mark and the outermost frame. */
#define KEEP_MAX   (GSP_MEMORY_DEPTH_MAX - 4)
/* Frames to follow on the way to the outermost. */
#define HOPS_MAX   100000U
/* References of 3.14 and later have tag bits. */
#define REF_MASK   (~(uintptr_t)7)
/* Frames from this owner on belong to the interpreter, not to a function (3.12+). */
#define OWNER_SHIM 3U
#define NAME_MAX_  512U
#define TABLE_MAX  (1U << 24)
/* Start of the file name of gsprof's wrappers, which warnings skip (_quiet.py). */
#define OWN_NAME   "<gsprof"

static struct gsp_agent_python python;

/* The frames of one walk, innermost first; the caller holds the lock. */
static struct raw {
    uintptr_t frame;
    uintptr_t code;
    uint64_t instr;
} found[KEEP_MAX + 1];
/* A frame of this walk has the first line of its function instead of its current line. */
static bool is_rough;

void gsp_agent__walk_init(const struct gsp_agent_python *from)
{
    memset(&python, 0, sizeof(python));
    if (from)
        python = *from;
}

static inline uintptr_t word_at(uintptr_t base, uint16_t off)
{
    return *(const uintptr_t *)(base + off); // NOLINT(performance-no-int-to-ptr)
}

static inline int32_t int_at(uintptr_t base, uint16_t off)
{
    return *(const int32_t *)(base + off); // NOLINT(performance-no-int-to-ptr)
}

/* ---------------------------------------------------------------------------------- frames */

static inline bool is_shim(uintptr_t frame)
{
    const uint16_t off = python.at.frame_owner;
    return off != GSP_AGENT_NO_OFFSET &&
           *(const unsigned char *)(frame + off) >= // NOLINT(performance-no-int-to-ptr)
               OWNER_SHIM;
}

static inline uintptr_t skip_shims(uintptr_t frame)
{
    while (frame != 0 && is_shim(frame))
        frame = word_at(frame, python.at.frame_back);
    return frame;
}

static inline uintptr_t caller_of(uintptr_t frame)
{
    return skip_shims(word_at(frame, python.at.frame_back));
}

static inline struct raw raw_at(uintptr_t frame)
{
    const bool is_object = python.at.frames == GSP_AGENT_FRAMES_OBJECTS;
    return (struct raw){
        .frame = frame,
        .code = word_at(frame, python.at.frame_code) & REF_MASK,
        .instr = is_object ? (uint64_t)(int64_t)int_at(frame, python.at.frame_instr)
                           : word_at(frame, python.at.frame_instr),
    };
}

static uintptr_t top_frame(void)
{
    if (!python.this_thread || python.is_finalizing())
        return 0; /* thread states are being freed */
    const uintptr_t thread = (uintptr_t)python.this_thread();
    if (thread == 0)
        return 0;
    uintptr_t top = word_at(thread, python.at.tstate_top);
    if (top != 0 && python.at.frames == GSP_AGENT_FRAMES_CFRAME)
        top = word_at(top, python.at.cframe_frame);
    return skip_shims(top);
}

/* -------------------------------------------------------------------------------- decoding */

static size_t utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | (c >> 18 & 7));
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* A Python str in memory. */
struct text {
    const unsigned char *data; /* NULL: unsupported representation */
    size_t len;                /* characters */
    uint32_t width;            /* bytes of each */
};

static struct text text_at(uintptr_t object)
{
    struct text text = {0};
    if (object == 0)
        return text;
    const uint32_t state = (uint32_t)int_at(object, python.at.text_state);
    const bool is_ascii = (state >> python.at.text_ascii_bit & 1) != 0;
    if ((state >> python.at.text_compact_bit & 1) != 0) {
        const uint16_t off = is_ascii ? python.at.text_ascii_size : python.at.text_compact_size;
        text.data = (const unsigned char *)(object + off); // NOLINT(performance-no-int-to-ptr)
        text.len = word_at(object, python.at.text_length);
        text.width = state >> python.at.text_kind_bit & 7;
    }
    return text;
}

/* Truncates long names at the start, because the end of a path is more useful. */
static uint32_t put_text(uintptr_t object)
{
    char out[NAME_MAX_ + 4];
    const struct text text = text_at(object);
    size_t len = 0;
    if (!text.data || (text.width != 1 && text.width != 2 && text.width != 4))
        return 0;
    const size_t most = NAME_MAX_ / 4;
    size_t i = text.len > NAME_MAX_ ? text.len - most : 0;
    for (; i < text.len && len < NAME_MAX_; i++) {
        uint32_t c = 0;
        memcpy(&c, text.data + i * text.width, text.width);
        len += utf8(c, out + len);
    }
    return gsp_agent__text_put((struct gsp_sv){out, len});
}

static bool starts_with(const struct text *text, const char *prefix)
{
    const size_t len = strlen(prefix);
    return text->data && text->width == 1 && text->len >= len &&
           memcmp(text->data, prefix, len) == 0;
}

/* Whether it is a function of gsprof. Its allocations are attributed to its caller. */
static bool is_own(uintptr_t file)
{
    const struct text text = text_at(file);
    return starts_with(&text, OWN_NAME) ||
           (python.own_folder && starts_with(&text, python.own_folder));
}

/* The length and the last bytes, to detect another string at the same address. */
static uint64_t mark_of(uintptr_t object)
{
    const struct text text = text_at(object);
    uint64_t last = 0;
    if (text.data) {
        const size_t bytes = text.len * text.width;
        const size_t part = bytes < sizeof(last) ? bytes : sizeof(last);
        memcpy(&last, text.data + bytes - part, part);
    }
    return last ^ (uint64_t)text.len << 56;
}

/* Whether the offset of a frame in its code can be computed. The array of the threads' bytecode
 * copies is replaced when a thread starts, and freed once every attached thread has passed a
 * quiescent state. A thread that is not attached must not read it. */
static bool can_find_offset(void)
{
    return python.at.code_tlbc == GSP_AGENT_NO_OFFSET ||
           (python.attached && python.attached() != NULL);
}

/* Returns the offset of a frame in its code, in bytes; UINT32_MAX if it is inconsistent. */
static uint32_t offset_of(const struct raw *raw)
{
    if (python.at.frames == GSP_AGENT_FRAMES_OBJECTS) {
        /* -1 before the first instruction; 3.10 counts instructions, not bytes. */
        const int64_t at = (int64_t)raw->instr;
        return at < 0 ? 0 : (uint32_t)at * (python.at.minor == 10 ? 2 : 1);
    }
    uintptr_t start = raw->code + python.at.code_start;
    if (python.at.code_tlbc != GSP_AGENT_NO_OFFSET) {
        /* The thread's copy of the bytecode: {Py_ssize_t size; char *entries[]}. */
        const uintptr_t copies = word_at(raw->code, python.at.code_tlbc);
        const uint32_t which = (uint32_t)int_at(raw->frame, python.at.frame_tlbc);
        if (copies != 0 && which < word_at(copies, 0))
            start = word_at(copies + sizeof(uintptr_t) * (which + 1UL), 0);
    }
    if (raw->instr + 2 == start)
        return 0; /* 3.11 and 3.12: one unit before the first instruction */
    const uint64_t off = raw->instr - start;
    return raw->instr >= start && off < TABLE_MAX ? (uint32_t)off : UINT32_MAX;
}

/* Without an offset, uses the first line of the function. */
static uint32_t decode(const struct raw *raw, const struct gsp_agent__frame_key *key,
                       bool has_offset)
{
    const uint32_t off = has_offset ? offset_of(raw) : UINT32_MAX;
    const size_t len = word_at(key->table, python.at.bytes_size);
    const uint32_t first_line = (uint32_t)int_at(raw->code, python.at.code_first_line);
    int line = has_offset ? 0 : (int)first_line;
    if (off != UINT32_MAX && len < TABLE_MAX) {
        line = python.line_of(
            (const uint8_t *)(key->table +
                              python.at.bytes_data), // NOLINT(performance-no-int-to-ptr)
            len, first_line, off);
    }
    const struct gsp_memory_frame frame = {
        .name = put_text(key->name),
        .file = put_text(key->file),
        .line = line > 0 ? (uint32_t)line : 0,
        .kind = is_own(key->file) ? GSP_MEMORY_OWN : GSP_MEMORY_PYTHON,
        .first_line = first_line,
    };
    return gsp_agent__frame_put(key, &frame);
}

/* Returns the frame's number; 0 if the table is full or the frame has no code object. */
static uint32_t frame_of(const struct raw *raw)
{
    if (raw->code == 0 || word_at(raw->code, python.at.object_type) != (uintptr_t)python.code_type)
        return 0;
    struct gsp_agent__frame_key key = {
        .code = raw->code,
        .instr = raw->instr,
        .name = word_at(raw->code, python.at.code_name),
        .file = word_at(raw->code, python.at.code_file),
        .table = word_at(raw->code, python.at.code_table),
    };
    key.mark = mark_of(key.file) ^ (uint64_t)int_at(raw->code, python.at.code_first_line) << 32;
    uint32_t known = gsp_agent__frame_find(&key);
    const bool has_offset = known != 0 || can_find_offset();
    if (!has_offset) {
        /* Use another key, so that the line is decoded once the thread is attached. */
        is_rough = true;
        key.instr = 0;
        known = gsp_agent__frame_find(&key);
    }
    if (known == 0 && gsp_agent__frames_full())
        return GSP_AGENT__CUT_FRAME;
    return known != 0 ? known : decode(raw, &key, has_offset);
}

/* -------------------------------------------------------------------------------- the walk */

/* Whether the stack has the same frame addresses as the last walk. Code and instructions may
 * differ: *same is the number of outermost frames that are unchanged. */
static bool has_same_frames(const struct gsp_agent__walk *last, uintptr_t top, uint32_t *same)
{
    uint32_t i = last->depth;
    *same = i;
    for (uintptr_t frame = top; frame != 0; frame = caller_of(frame)) {
        if (i == 0 || last->at[i - 1].frame != frame)
            return false;
        i--;
        const struct raw raw = raw_at(frame);
        found[last->depth - 1 - i] = raw;
        if (last->at[i].instr != raw.instr || last->at[i].code != raw.code)
            *same = i;
    }
    return i == 0;
}

/* Stores the frames in found[], innermost first, and their number in *depth. If the stack is too
 * deep, found[*depth] is the outermost frame. Returns false if the chain does not end. */
static bool collect(uintptr_t top, uint32_t *depth, bool *is_cut)
{
    uint32_t hops = 0;
    uint32_t i = 0;
    uintptr_t frame = top;
    for (; frame != 0 && i < KEEP_MAX; frame = caller_of(frame))
        found[i++] = raw_at(frame);
    *depth = i;
    *is_cut = frame != 0;
    while (frame != 0 && hops < HOPS_MAX) {
        const uintptr_t next = caller_of(frame);
        if (next == 0)
            found[i] = raw_at(frame);
        frame = next;
        hops++;
    }
    return hops < HOPS_MAX;
}

/* Adds the frames from found[count - 1] to found[0] below the node. Returns the innermost node, or
 * 0 if the table is full. Stores the frames in *last in both cases. */
static uint32_t add_frames(uint32_t node, uint32_t count, struct gsp_agent__walk *last)
{
    is_rough = false;
    for (uint32_t i = count; i > 0; i--) {
        const struct raw *raw = &found[i - 1];
        const uint32_t frame = node != 0 ? frame_of(raw) : 0;
        if (node != 0 && !gsp_agent__frame_is_own(frame))
            node = gsp_agent__node_put(node, frame);
        if (last) {
            last->at[last->depth++] =
                (struct gsp_agent__walk_frame){raw->frame, raw->code, raw->instr, node};
        }
    }
    if (last && is_rough)
        last->depth = 0; /* the next walk decodes again */
    return node;
}

/* Returns the short stack, for when the table has no space for the full one. */
static uint32_t short_stack(void)
{
    const uint32_t frame = frame_of(&found[0]);
    const uint32_t node = gsp_agent__node_put(GSP_AGENT__SHORT, frame);
    return node != 0 ? node : GSP_AGENT__SHORT;
}

static uint32_t or_short(uint32_t node, enum gsp_memory_loss *loss)
{
    if (node == 0) {
        *loss = GSP_MEMORY_LOST_STACK;
        node = short_stack();
    }
    return node;
}

uint32_t gsp_agent__walk(uint32_t root, struct gsp_agent__walk *last, enum gsp_memory_loss *loss)
{
    uint32_t depth = 0;
    uint32_t same = 0;
    bool is_cut = false;
    *loss = GSP_MEMORY_LOSSES;
    const uintptr_t top = root != 0 ? top_frame() : 0;
    if (top == 0)
        return root;
    if (last && last->root == root && last->depth > 0 && has_same_frames(last, top, &same)) {
        depth = last->depth - same;
        last->depth = same;
        const uint32_t node = same > 0 ? last->at[same - 1].node : root;
        return or_short(add_frames(node, depth, last), loss);
    }
    if (!collect(top, &depth, &is_cut)) {
        *loss = GSP_MEMORY_LOST_TORN;
        return root;
    }
    if (is_cut) {
        /* Not kept for the next walk, which would have to compare all frames to the end. */
        const uint32_t node = gsp_agent__node_put(root, frame_of(&found[depth]));
        root = node != 0 ? gsp_agent__node_put(node, GSP_AGENT__CUT_FRAME) : 0;
        last = NULL;
        *loss = GSP_MEMORY_CUT_STACKS;
    }
    if (last) {
        last->depth = 0;
        last->root = root;
    }
    return or_short(add_frames(root, depth, last), loss);
}
