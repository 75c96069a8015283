/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows arrays by shape and dtype. numpy's structs are part of its C ABI, unchanged since 1.7.
 * torch's are not: a tensor is recognized only if its memory is consistent.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "py/repr_internal.h"

#define DIMS_MAX      64U
#define TENSOR_WORDS  48U /* words of a TensorImpl that are searched */
#define TENSOR_INLINE 5U  /* sizes stored inline; more are behind a pointer */
#define BASES_MAX     16U
#define NUMPY_PREFIX  "numpy."

/* ---- numpy scalars ---- */

enum scalar_kind { SCALAR_BOOL, SCALAR_INT, SCALAR_UINT, SCALAR_FLOAT };

struct scalar {
    const char *name; /* without "numpy." */
    enum scalar_kind kind;
    unsigned bytes;
};

static const struct scalar SCALARS[] = {
    {"float64", SCALAR_FLOAT, 8},  {"float32", SCALAR_FLOAT, 4}, {"float16", SCALAR_FLOAT, 2},
    {"int64", SCALAR_INT, 8},      {"int32", SCALAR_INT, 4},     {"int16", SCALAR_INT, 2},
    {"int8", SCALAR_INT, 1},       {"uint64", SCALAR_UINT, 8},   {"uint32", SCALAR_UINT, 4},
    {"uint16", SCALAR_UINT, 2},    {"uint8", SCALAR_UINT, 1},    {"longlong", SCALAR_INT, 8},
    {"intc", SCALAR_INT, 4},       {"bool_", SCALAR_BOOL, 1},    {"bool", SCALAR_BOOL, 1},
    {"ulonglong", SCALAR_UINT, 8}, {"uintc", SCALAR_UINT, 4},
};

static double half_to_double(uint16_t half)
{
    int exponent = (half >> 10U) & 31;
    double mantissa = half & 1023U;
    double value = exponent == 0    ? ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa != 0 ? (double)NAN : (double)INFINITY)
                                    : ldexp(mantissa + 1024, exponent - 25);
    return (half & 0x8000U) != 0 ? -value : value;
}

static void write_scalar_float(struct gsp_buf *out, const unsigned char *bytes, unsigned width)
{
    double wide = 0;
    float narrow = 0;
    uint16_t half = 0;
    if (width == sizeof(wide)) {
        memcpy(&wide, bytes, sizeof(wide));
        gsp_py__write_double(out, wide, false);
    } else if (width == sizeof(narrow)) {
        memcpy(&narrow, bytes, sizeof(narrow));
        gsp_py__write_double(out, (double)narrow, true);
    } else {
        memcpy(&half, bytes, sizeof(half));
        gsp_py__write_double(out, half_to_double(half), true);
    }
}

static int write_scalar(struct gsp_py__repr *r, gsp_raddr addr, const struct scalar *scalar)
{
    unsigned char bytes[8] = {0};
    int rc =
        gsp_proc_mem_read(r->view.mem, addr + r->view.layout->object_size, bytes, scalar->bytes);
    if (rc != 0)
        return rc;
    gsp_buf_printf(r->out, "np.%s(", scalar->name);
    if (scalar->kind == SCALAR_FLOAT) {
        write_scalar_float(r->out, bytes, scalar->bytes);
    } else if (scalar->kind == SCALAR_BOOL) {
        gsp_buf_puts(r->out, bytes[0] ? "True" : "False");
    } else {
        uint64_t value = 0;
        memcpy(&value, bytes, sizeof(value)); /* little-endian; the rest is zero */
        if (scalar->kind == SCALAR_UINT) {
            gsp_buf_printf(r->out, "%" PRIu64, value);
        } else {
            unsigned shift = 64U - 8U * scalar->bytes;
            gsp_buf_printf(r->out, "%" PRId64, (int64_t)(value << shift) >> shift);
        }
    }
    gsp_buf_putc(r->out, ')');
    return 0;
}

static const struct scalar *find_scalar(struct gsp_sv name)
{
    if (!gsp_sv_starts(name, NUMPY_PREFIX))
        return NULL;
    struct gsp_sv rest = {name.p + strlen(NUMPY_PREFIX), name.len - strlen(NUMPY_PREFIX)};
    for (size_t i = 0; i < GSP_COUNT(SCALARS); i++)
        if (gsp_sv_eq(rest, gsp_sv_of(SCALARS[i].name)))
            return &SCALARS[i];
    return NULL;
}

/* ---- Arrays ---- */

static void write_shape(struct gsp_buf *out, const int64_t *dims, size_t count)
{
    gsp_buf_puts(out, " shape=(");
    for (size_t i = 0; i < count; i++)
        gsp_buf_printf(out, i == 0 ? "%" PRId64 : ", %" PRId64, dims[i]);
    gsp_buf_puts(out, count == 1 ? ",)" : ")");
}

/* Writes the name of the scalar type of a dtype: "numpy.float64" as "float64". */
static int write_dtype(struct gsp_py__repr *r, gsp_raddr descr)
{
    gsp_auto_buf name = {0};
    uint64_t scalar_type = 0;
    int rc = gsp_proc_mem_read_u64(r->view.mem, descr + r->view.layout->object_size, &scalar_type);
    rc = rc != 0 ? rc : gsp_py__type_name(r->view.mem, r->view.layout, scalar_type, &name);
    if (rc != 0)
        return rc;
    struct gsp_sv text = gsp_buf_sv(&name);
    if (gsp_sv_starts(text, NUMPY_PREFIX))
        text = (struct gsp_sv){text.p + strlen(NUMPY_PREFIX), text.len - strlen(NUMPY_PREFIX)};
    if (gsp_sv_ends(text, "_"))
        text.len--;
    gsp_buf_puts(r->out, " dtype=");
    gsp_buf_putsv(r->out, text);
    return 0;
}

/* PyArrayObject after its header: data, nd (int), dimensions, strides, base, descr. */
static int write_ndarray(struct gsp_py__repr *r, gsp_raddr addr, struct gsp_sv name)
{
    uint64_t words[6];
    int64_t dims[DIMS_MAX];
    int rc =
        gsp_proc_mem_read(r->view.mem, addr + r->view.layout->object_size, words, sizeof(words));
    if (rc != 0)
        return rc;
    uint32_t count = (uint32_t)words[1];
    if (count > DIMS_MAX)
        return GSP_E_FORMAT;
    if (count > 0) {
        rc = gsp_proc_mem_read(r->view.mem, words[2], dims, count * sizeof(dims[0]));
        if (rc != 0)
            return rc;
    }
    gsp_buf_putc(r->out, '<');
    gsp_buf_putsv(r->out, name);
    write_shape(r->out, dims, count);
    rc = write_dtype(r, words[5]);
    gsp_buf_putc(r->out, '>');
    return rc;
}

/* ---- torch ---- */

/* In the order of c10::ScalarType. */
static const char *const TORCH_DTYPES[] = {
    "torch.uint8",     "torch.int8",      "torch.int16",      "torch.int32",
    "torch.int64",     "torch.float16",   "torch.float32",    "torch.float64",
    "torch.complex32", "torch.complex64", "torch.complex128", "torch.bool",
    "torch.qint8",     "torch.quint8",    "torch.qint32",     "torch.bfloat16",
};

struct tensor {
    size_t dim_count;
    int64_t dims[DIMS_MAX];
    uint16_t dtype;
};

/* The pointer to the Python object is followed by the number of sizes, five sizes and five strides
 * (or a pointer to all), the storage offset, the number of elements and the dtype. The words are a
 * tensor if the product of the sizes is the number of elements. */
static bool parse_tensor(struct gsp_mem *mem, const uint64_t *words, struct tensor *out)
{
    uint64_t count = words[0];
    if (count > DIMS_MAX)
        return false;
    if (count <= TENSOR_INLINE)
        memcpy(out->dims, words + 1, (size_t)count * sizeof(out->dims[0]));
    else if (gsp_proc_mem_read(mem, words[1], out->dims, (size_t)count * sizeof(out->dims[0])) != 0)
        return false;
    uint64_t elements = 1;
    for (size_t i = 0; i < count; i++) {
        if (out->dims[i] < 0 || out->dims[i] > (1LL << 48U))
            return false;
        elements *= (uint64_t)out->dims[i];
    }
    out->dim_count = (size_t)count;
    out->dtype = (uint16_t)words[2 + 2 * TENSOR_INLINE + 1];
    return elements == words[2 + 2 * TENSOR_INLINE] && out->dtype < GSP_COUNT(TORCH_DTYPES);
}

/* Finds the TensorImpl of a THPVariable, whose first word after the header may be a flag. */
static bool find_tensor(struct gsp_py__repr *r, gsp_raddr addr, struct tensor *out)
{
    uint64_t impls[2];
    uint64_t words[TENSOR_WORDS];
    const size_t needed = 2 + 2 * TENSOR_INLINE + 2;
    if (gsp_proc_mem_read(r->view.mem, addr + r->view.layout->object_size, impls, sizeof(impls)) !=
        0)
        return false;
    for (size_t i = 0; i < GSP_COUNT(impls); i++) {
        if (gsp_proc_mem_read(r->view.mem, impls[i], words, sizeof(words)) != 0)
            continue;
        for (size_t k = 0; k + 1 + needed <= TENSOR_WORDS; k++)
            if ((words[k] & ~1ULL) == addr && parse_tensor(r->view.mem, words + k + 1, out))
                return true;
    }
    return false;
}

static int write_tensor(struct gsp_py__repr *r, gsp_raddr addr, struct gsp_sv name)
{
    struct tensor tensor = {0};
    if (!find_tensor(r, addr, &tensor))
        return 1;
    gsp_buf_putc(r->out, '<');
    gsp_buf_putsv(r->out, name);
    write_shape(r->out, tensor.dims, tensor.dim_count);
    gsp_buf_printf(r->out, " dtype=%s>", TORCH_DTYPES[tensor.dtype]);
    return 0;
}

/* ---- Any array ---- */

enum array_kind { ARRAY_NONE, ARRAY_NUMPY, ARRAY_TORCH };

static enum array_kind kind_of(struct gsp_sv name)
{
    if (gsp_sv_eq(name, gsp_sv_of("numpy.ndarray")))
        return ARRAY_NUMPY;
    bool torch = gsp_sv_eq(name, gsp_sv_of("torch._C.TensorBase")) ||
                 gsp_sv_eq(name, gsp_sv_of("torch._C._TensorBase"));
    return torch ? ARRAY_TORCH : ARRAY_NONE;
}

/* Tensor, Parameter and the like are subclasses. */
static enum array_kind find_kind(struct gsp_py__repr *r, const struct gsp_py__type *type,
                                 struct gsp_sv name)
{
    enum array_kind kind = kind_of(name);
    gsp_raddr base = type->base;
    for (unsigned i = 0; i < BASES_MAX && base != 0 && kind == ARRAY_NONE; i++) {
        gsp_auto_buf text = {0};
        if (gsp_py__type_name(r->view.mem, r->view.layout, base, &text) != 0)
            break;
        kind = kind_of(gsp_buf_sv(&text));
        if (gsp_proc_mem_read_u64(r->view.mem, base + r->view.layout->type_base, &base) != 0)
            break;
    }
    return kind;
}

int gsp_py__write_array(struct gsp_py__repr *r, gsp_raddr addr, const struct gsp_py__type *type,
                        struct gsp_sv name)
{
    const struct scalar *scalar = find_scalar(name);
    if (scalar)
        return write_scalar(r, addr, scalar);
    switch (find_kind(r, type, name)) {
    case ARRAY_NUMPY:
        return write_ndarray(r, addr, name);
    case ARRAY_TORCH:
        return write_tensor(r, addr, name);
    case ARRAY_NONE:
        break;
    }
    return 1;
}
