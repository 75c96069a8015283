/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

struct symbol {
    const char *name;
    const char *older; /* the name in older drivers, or NULL */
    size_t offset;
    bool required;
};

#define MEMBER(member) offsetof(struct gsp_nvml, member)

static const struct symbol symbols[] = {
    {"nvmlInit_v2", "nvmlInit", MEMBER(init), true},
    {"nvmlShutdown", NULL, MEMBER(shutdown), true},
    {"nvmlErrorString", NULL, MEMBER(error_string), false},
    {"nvmlSystemGetDriverVersion", NULL, MEMBER(driver_version), false},
    {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", MEMBER(count), true},
    {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", MEMBER(handle), true},
    {"nvmlDeviceGetName", NULL, MEMBER(name), false},
    {"nvmlDeviceGetUUID", NULL, MEMBER(uuid), false},
    {"nvmlDeviceGetPciInfo_v3", NULL, MEMBER(pci), false},
    {"nvmlDeviceGetMemoryInfo", NULL, MEMBER(memory), false},
    {"nvmlDeviceGetUtilizationRates", NULL, MEMBER(util), false},
    {"nvmlDeviceGetPowerUsage", NULL, MEMBER(power_mw), false},
    {"nvmlDeviceGetEnforcedPowerLimit", NULL, MEMBER(power_limit_mw), false},
    {"nvmlDeviceGetTemperature", NULL, MEMBER(temperature), false},
    {"nvmlDeviceGetClockInfo", NULL, MEMBER(clock_mhz), false},
    {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
     MEMBER(throttle), false},
    {"nvmlDeviceGetTotalEnergyConsumption", NULL, MEMBER(energy_mj), false},
    {"nvmlDeviceGetPcieThroughput", NULL, MEMBER(pcie_kb_per_s), false},
    {"nvmlDeviceGetFieldValues", NULL, MEMBER(fields), false},
    {"nvmlDeviceGetMigMode", NULL, MEMBER(mig), false},
    /* Not version 1, which has other structs. */
    {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
     MEMBER(compute_processes), false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
     MEMBER(graphics_processes), false},
    {"nvmlDeviceGetProcessUtilization", NULL, MEMBER(process_util), false},
};

static bool find_symbols(struct gsp_nvml *nvml, const char **missing)
{
    for (size_t i = 0; i < GSP_COUNT(symbols); i++) {
        const struct symbol *symbol = &symbols[i];
        void *address = dlsym(nvml->library, symbol->name);
        if (!address && symbol->older)
            address = dlsym(nvml->library, symbol->older);
        if (!address && symbol->required) {
            *missing = symbol->name;
            return false;
        }
        memcpy((char *)nvml + symbol->offset, &address, sizeof(address));
    }
    return true;
}

int gsp_collect__nvml_open(struct gsp_nvml *nvml, const char *library, struct gsp_err *err)
{
    const char *missing = NULL;
    *nvml = (struct gsp_nvml){0};
    if (!library || library[0] == '\0')
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "disabled");
    nvml->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "no %s: NVIDIA driver not found", library);
    if (!find_symbols(nvml, &missing)) {
        dlclose(nvml->library);
        *nvml = (struct gsp_nvml){0};
        return gsp_err_set(err, GSP_E_NOTSUP, 0, "%s has no %s", library, missing);
    }
    const int code = nvml->init();
    if (code != GSP_NVML_OK) {
        gsp_err_fill(err, GSP_E_IO, 0, "NVML initialization failed: %s (%d)",
                     gsp_collect__nvml_text(nvml, code), code);
        dlclose(nvml->library);
        *nvml = (struct gsp_nvml){0};
        return GSP_E_IO;
    }
    return 0;
}

void gsp_collect__nvml_close(struct gsp_nvml *nvml)
{
    if (!nvml->library)
        return;
    nvml->shutdown();
    dlclose(nvml->library);
    *nvml = (struct gsp_nvml){0};
}

const char *gsp_collect__nvml_text(const struct gsp_nvml *nvml, int code)
{
    const char *text = nvml->error_string ? nvml->error_string(code) : NULL;
    return text && text[0] ? text : "unknown error";
}
