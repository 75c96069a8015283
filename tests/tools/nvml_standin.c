/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml_standin.c -- a stand-in for libnvidia-ml.so.1, for tests on machines without a GPU.
 *
 * Its answers are in the file named by GSP_NVML_STANDIN. Every call reads the file, so that a test
 * can change it at any time. Lines are "key value ...":
 *   init 0            result of nvmlInit           count 3          number of GPUs
 *   driver 1.2.3
 *   0.code 15         result of every call about GPU 0
 *   0.util.code 999   result of one call           0.util 50 20     its values
 * A call without a line is not supported (3).
 * Tests with it cover how gsprof processes answers, not how a GPU behaves.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/nvml.h"

#define STANDIN        __attribute__((visibility("default")))
#define LINE_MAX_BYTES 512

/* Handles: addresses from which the number follows. */
static char handles[64];

static unsigned number_of(gsp_nvml_dev dev)
{
    return (unsigned)((char *)dev - handles);
}

/* Finds the line with the key and copies its rest. Returns false if none exists. */
static bool find(const char *key, char *out, size_t cap)
{
    const char *path = getenv("GSP_NVML_STANDIN");
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[LINE_MAX_BYTES];
    const size_t len = strlen(key);
    bool found = false;
    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        found = strncmp(line, key, len) == 0 && line[len] == ' ';
    }
    if (file)
        fclose(file);
    if (found)
        snprintf(out, cap, "%s", line + len + 1);
    return found;
}

static int code_of(const char *key, int otherwise)
{
    char text[LINE_MAX_BYTES];
    return find(key, text, sizeof(text)) ? (int)strtol(text, NULL, 10) : otherwise;
}

/* Copies the values of a call about a GPU. Returns the code of the call. */
static int find_values(gsp_nvml_dev dev, const char *what, char *out, size_t cap)
{
    char key[64];
    const unsigned i = number_of(dev);
    snprintf(key, sizeof(key), "%u.code", i);
    int code = code_of(key, GSP_NVML_OK);
    snprintf(key, sizeof(key), "%u.%s.code", i, what);
    if (code == GSP_NVML_OK)
        code = code_of(key, GSP_NVML_OK);
    if (code != GSP_NVML_OK)
        return code;
    snprintf(key, sizeof(key), "%u.%s", i, what);
    return find(key, out, cap) ? GSP_NVML_OK : GSP_NVML_NOT_SUPPORTED;
}

static int find_numbers(gsp_nvml_dev dev, const char *what, unsigned long long *out, size_t count)
{
    char text[LINE_MAX_BYTES];
    const int code = find_values(dev, what, text, sizeof(text));
    char *p = text;
    for (size_t i = 0; code == GSP_NVML_OK && i < count; i++)
        out[i] = strtoull(p, &p, 10);
    return code;
}

static int find_unsigned(gsp_nvml_dev dev, const char *what, unsigned *out)
{
    unsigned long long value = 0;
    const int code = find_numbers(dev, what, &value, 1);
    if (code == GSP_NVML_OK)
        *out = (unsigned)value;
    return code;
}

static int find_text(gsp_nvml_dev dev, const char *what, char *out, unsigned cap)
{
    char text[LINE_MAX_BYTES];
    const int code = find_values(dev, what, text, sizeof(text));
    if (code == GSP_NVML_OK)
        snprintf(out, cap, "%s", text);
    return code;
}

/* The names are those of the library. */
STANDIN int nvmlInit_v2(void);
STANDIN int nvmlShutdown(void);
STANDIN const char *nvmlErrorString(int code);
STANDIN int nvmlSystemGetDriverVersion(char *out, unsigned cap);
STANDIN int nvmlDeviceGetCount_v2(unsigned *out);
STANDIN int nvmlDeviceGetHandleByIndex_v2(unsigned i, gsp_nvml_dev *out);
STANDIN int nvmlDeviceGetName(gsp_nvml_dev dev, char *out, unsigned cap);
STANDIN int nvmlDeviceGetUUID(gsp_nvml_dev dev, char *out, unsigned cap);
STANDIN int nvmlDeviceGetPciInfo_v3(gsp_nvml_dev dev, struct gsp_nvml_pci *out);
STANDIN int nvmlDeviceGetMemoryInfo(gsp_nvml_dev dev, struct gsp_nvml_memory *out);
STANDIN int nvmlDeviceGetUtilizationRates(gsp_nvml_dev dev, struct gsp_nvml_util *out);
STANDIN int nvmlDeviceGetPowerUsage(gsp_nvml_dev dev, unsigned *out);
STANDIN int nvmlDeviceGetEnforcedPowerLimit(gsp_nvml_dev dev, unsigned *out);
STANDIN int nvmlDeviceGetTemperature(gsp_nvml_dev dev, unsigned sensor, unsigned *out);
STANDIN int nvmlDeviceGetClockInfo(gsp_nvml_dev dev, unsigned domain, unsigned *out);
STANDIN int nvmlDeviceGetCurrentClocksThrottleReasons(gsp_nvml_dev dev, unsigned long long *out);
STANDIN int nvmlDeviceGetTotalEnergyConsumption(gsp_nvml_dev dev, unsigned long long *out);
STANDIN int nvmlDeviceGetPcieThroughput(gsp_nvml_dev dev, unsigned direction, unsigned *out);
STANDIN int nvmlDeviceGetFieldValues(gsp_nvml_dev dev, int count, struct gsp_nvml_field *fields);
STANDIN int nvmlDeviceGetMigMode(gsp_nvml_dev dev, unsigned *current, unsigned *pending);
STANDIN int nvmlDeviceGetComputeRunningProcesses_v3(gsp_nvml_dev dev, unsigned *count,
                                                    struct gsp_nvml_process *out);
STANDIN int nvmlDeviceGetProcessUtilization(gsp_nvml_dev dev, struct gsp_nvml_sample *out,
                                            unsigned *count, unsigned long long since_us);

int nvmlInit_v2(void)
{
    return code_of("init", GSP_NVML_DRIVER_NOT_LOADED);
}

int nvmlShutdown(void)
{
    return GSP_NVML_OK;
}

const char *nvmlErrorString(int code)
{
    switch (code) {
    case GSP_NVML_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case GSP_NVML_LOST:
        return "GPU is lost";
    default:
        return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned cap)
{
    char text[LINE_MAX_BYTES];
    if (!find("driver", text, sizeof(text)))
        return GSP_NVML_NOT_SUPPORTED;
    snprintf(out, cap, "%s", text);
    return GSP_NVML_OK;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = (unsigned)code_of("count", 0);
    return code_of("count.code", GSP_NVML_OK);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, gsp_nvml_dev *out)
{
    char key[64];
    snprintf(key, sizeof(key), "%u.handle.code", i);
    if (i >= sizeof(handles))
        return GSP_NVML_NOT_FOUND;
    *out = (gsp_nvml_dev)(void *)&handles[i];
    return code_of(key, GSP_NVML_OK);
}

int nvmlDeviceGetName(gsp_nvml_dev dev, char *out, unsigned cap)
{
    return find_text(dev, "name", out, cap);
}

int nvmlDeviceGetUUID(gsp_nvml_dev dev, char *out, unsigned cap)
{
    return find_text(dev, "uuid", out, cap);
}

int nvmlDeviceGetPciInfo_v3(gsp_nvml_dev dev, struct gsp_nvml_pci *out)
{
    return find_text(dev, "pci", out->bus_id, sizeof(out->bus_id));
}

int nvmlDeviceGetMemoryInfo(gsp_nvml_dev dev, struct gsp_nvml_memory *out)
{
    unsigned long long v[2] = {0, 0};
    const int code = find_numbers(dev, "memory", v, 2);
    if (code == GSP_NVML_OK)
        *out = (struct gsp_nvml_memory){.used = v[0], .total = v[1], .free = v[1] - v[0]};
    return code;
}

int nvmlDeviceGetUtilizationRates(gsp_nvml_dev dev, struct gsp_nvml_util *out)
{
    unsigned long long v[2] = {0, 0};
    const int code = find_numbers(dev, "util", v, 2);
    if (code == GSP_NVML_OK)
        *out = (struct gsp_nvml_util){(unsigned)v[0], (unsigned)v[1]};
    return code;
}

int nvmlDeviceGetPowerUsage(gsp_nvml_dev dev, unsigned *out)
{
    return find_unsigned(dev, "power_mw", out);
}

int nvmlDeviceGetEnforcedPowerLimit(gsp_nvml_dev dev, unsigned *out)
{
    return find_unsigned(dev, "power_limit_mw", out);
}

int nvmlDeviceGetTemperature(gsp_nvml_dev dev, unsigned sensor, unsigned *out)
{
    (void)sensor;
    return find_unsigned(dev, "temperature", out);
}

int nvmlDeviceGetClockInfo(gsp_nvml_dev dev, unsigned domain, unsigned *out)
{
    return find_unsigned(dev, domain == GSP_NVML_CLOCK_SM ? "sm_clock" : "memory_clock", out);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(gsp_nvml_dev dev, unsigned long long *out)
{
    return find_numbers(dev, "throttle", out, 1);
}

int nvmlDeviceGetTotalEnergyConsumption(gsp_nvml_dev dev, unsigned long long *out)
{
    return find_numbers(dev, "energy_mj", out, 1);
}

int nvmlDeviceGetPcieThroughput(gsp_nvml_dev dev, unsigned direction, unsigned *out)
{
    return find_unsigned(dev, direction == GSP_NVML_PCIE_TX ? "pcie_tx_kb" : "pcie_rx_kb", out);
}

int nvmlDeviceGetFieldValues(gsp_nvml_dev dev, int count, struct gsp_nvml_field *fields)
{
    for (int i = 0; i < count; i++) {
        char what[32];
        unsigned long long value = 0;
        snprintf(what, sizeof(what), "field%u", fields[i].id);
        fields[i].code = find_numbers(dev, what, &value, 1);
        fields[i].type = GSP_NVML_U64;
        fields[i].value.u64 = value;
    }
    return GSP_NVML_OK;
}

int nvmlDeviceGetMigMode(gsp_nvml_dev dev, unsigned *current, unsigned *pending)
{
    *pending = 0;
    return find_unsigned(dev, "mig", current);
}

int nvmlDeviceGetComputeRunningProcesses_v3(gsp_nvml_dev dev, unsigned *count,
                                            struct gsp_nvml_process *out)
{
    /* processes: "pid memory instance" for each; an instance of 99 means none */
    char text[LINE_MAX_BYTES];
    const int code = find_values(dev, "processes", text, sizeof(text));
    unsigned n = 0;
    char *p = text;
    while (code == GSP_NVML_OK && *p != '\0' && n < *count) {
        out[n] = (struct gsp_nvml_process){.pid = (unsigned)strtoul(p, &p, 10)};
        out[n].memory = strtoull(p, &p, 10);
        out[n].gpu_instance = (unsigned)strtoul(p, &p, 10);
        if (out[n].gpu_instance == 99)
            out[n].gpu_instance = GSP_NVML_NO_INSTANCE;
        p += strspn(p, " ");
        n++;
    }
    if (code == GSP_NVML_OK)
        *count = n;
    return code;
}

int nvmlDeviceGetProcessUtilization(gsp_nvml_dev dev, struct gsp_nvml_sample *out, unsigned *count,
                                    unsigned long long since_us)
{
    unsigned long long v[3] = {0, 0, 0};
    const int code = find_numbers(dev, "process_util", v, 3);
    if (code != GSP_NVML_OK)
        return code;
    *count = v[1] > since_us ? 1 : 0;
    if (*count)
        out[0] = (struct gsp_nvml_sample){
            .pid = (unsigned)v[0], .time_us = v[1], .sm_util = (unsigned)v[2]};
    return *count ? GSP_NVML_OK : GSP_NVML_NOT_FOUND;
}
