/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.h -- the functions of NVIDIA's management library that gsprof calls, resolved at run time.
 *
 * The declarations are our own, from the documented binary interface of the library. A function
 * that an older driver lacks is NULL.
 *
 * Threads: one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* The return codes that are handled by name. */
enum gsp_nvml_code {
    GSP_NVML_OK = 0,
    GSP_NVML_UNINITIALIZED = 1,
    GSP_NVML_NOT_SUPPORTED = 3,
    GSP_NVML_NO_PERMISSION = 4,
    GSP_NVML_NOT_FOUND = 6,
    GSP_NVML_SMALL = 7, /* the given array is too small */
    GSP_NVML_DRIVER_NOT_LOADED = 9,
    GSP_NVML_NO_FUNCTION = 13,
    GSP_NVML_LOST = 15,
    GSP_NVML_RESET_REQUIRED = 16,
    GSP_NVML_NO_DATA = 21,
    GSP_NVML_UNKNOWN = 999,
};

struct gsp_nvml_device; /* opaque */

struct gsp_nvml_util {
    unsigned gpu;
    unsigned memory;
};

struct gsp_nvml_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

struct gsp_nvml_pci {
    char bus_id_legacy[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned device_id;
    unsigned subsystem_id;
    char bus_id[32];
};

/* For versions 2 and 3 of the call; version 1 has only pid and memory. */
struct gsp_nvml_process { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct gsp_nvml_sample { /* NOLINT(clang-analyzer-optin.performance.Padding) */
    unsigned pid;
    unsigned long long time_us;
    unsigned sm_util;
    unsigned memory_util;
    unsigned encoder_util;
    unsigned decoder_util;
};

enum gsp_nvml_value_type {
    GSP_NVML_F64 = 0,
    GSP_NVML_U32 = 1,
    GSP_NVML_ULONG = 2,
    GSP_NVML_U64 = 3
};

/* Counters that are read by number. */
enum gsp_nvml_field_id {
    GSP_NVML_NVLINK_TX_KIB = 138,
    GSP_NVML_NVLINK_RX_KIB = 139,
    GSP_NVML_PCIE_TX_BYTES = 197,
    GSP_NVML_PCIE_RX_BYTES = 198,
};
#define GSP_NVML_ALL_LINKS UINT32_MAX

struct gsp_nvml_field {
    unsigned id;
    unsigned scope; /* which link */
    long long time_us;
    long long latency_us;
    unsigned type; /* enum gsp_nvml_value_type */
    int code;
    union {
        double f64;
        unsigned u32;
        unsigned long ulong_value;
        unsigned long long u64;
    } value;
};

#define GSP_NVML_MEMORY_UNKNOWN UINT64_MAX /* of a process */
#define GSP_NVML_NO_INSTANCE    UINT32_MAX
#define GSP_NVML_TEMP_GPU       0U
#define GSP_NVML_CLOCK_SM       1U
#define GSP_NVML_CLOCK_MEMORY   2U
#define GSP_NVML_PCIE_TX        0U
#define GSP_NVML_PCIE_RX        1U

typedef struct gsp_nvml_device *gsp_nvml_dev;

struct gsp_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int code);
    int (*driver_version)(char *out, unsigned cap);
    int (*count)(unsigned *out);
    int (*handle)(unsigned index, gsp_nvml_dev *out);
    int (*name)(gsp_nvml_dev dev, char *out, unsigned cap);
    int (*uuid)(gsp_nvml_dev dev, char *out, unsigned cap);
    int (*pci)(gsp_nvml_dev dev, struct gsp_nvml_pci *out);
    int (*memory)(gsp_nvml_dev dev, struct gsp_nvml_memory *out);
    int (*util)(gsp_nvml_dev dev, struct gsp_nvml_util *out);
    int (*power_mw)(gsp_nvml_dev dev, unsigned *out);
    int (*power_limit_mw)(gsp_nvml_dev dev, unsigned *out);
    int (*temperature)(gsp_nvml_dev dev, unsigned sensor, unsigned *out);
    int (*clock_mhz)(gsp_nvml_dev dev, unsigned domain, unsigned *out);
    int (*throttle)(gsp_nvml_dev dev, unsigned long long *out);
    int (*energy_mj)(gsp_nvml_dev dev, unsigned long long *out);
    int (*pcie_kb_per_s)(gsp_nvml_dev dev, unsigned direction, unsigned *out);
    int (*fields)(gsp_nvml_dev dev, int count, struct gsp_nvml_field *fields);
    int (*mig)(gsp_nvml_dev dev, unsigned *current, unsigned *pending);
    int (*compute_processes)(gsp_nvml_dev dev, unsigned *count, struct gsp_nvml_process *out);
    int (*graphics_processes)(gsp_nvml_dev dev, unsigned *count, struct gsp_nvml_process *out);
    int (*process_util)(gsp_nvml_dev dev, struct gsp_nvml_sample *out, unsigned *count,
                        unsigned long long since_us);
};

/* Loads and initializes the library. Fails with NOTSUP (no library, or not NVML) or IO (with the
 * reason of the driver). On failure *nvml is empty. */
GSP_MUST_CHECK int gsp_collect__nvml_open(struct gsp_nvml *nvml, const char *library,
                                          struct gsp_err *err);
void gsp_collect__nvml_close(struct gsp_nvml *nvml); /* {0} does nothing */

/* The library's text for a code. */
const char *gsp_collect__nvml_text(const struct gsp_nvml *nvml, int code);
