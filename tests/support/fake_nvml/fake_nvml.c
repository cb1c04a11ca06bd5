/* A double of the NVIDIA driver's library, libnvidia-ml.so.1, for tests: the functions of NVML.
 *
 * What they answer is not said here but by the test (see answers.h). To widen the double, add a function.
 *
 * Compiled with -DOLD_DRIVER it lacks what came with R510 and later, symbols and all. The macros
 * SIZE_OF_... are the sizes of the same structures in pynvml. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers.h"

enum { MOST_GPUS = 16, MOST_SLICES = 8, UNSIGNED_LONG_LONG = 3 };

typedef struct { char who[24]; } Device;                  /* what an nvmlDevice_t points to */
typedef struct { Number total, free, used; } Memory;
typedef struct { unsigned version; Number total, reserved, free, used; } MemoryV2;
typedef struct { unsigned version, sensor; int temperature; } TemperatureV1;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem; char id[32]; } Pci;
typedef struct { unsigned pid; Number memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned id, scope; long long time, latency; int type, code; Number value; } Field;

_Static_assert(sizeof(Memory) == SIZE_OF_MEMORY, "differs from pynvml");
_Static_assert(sizeof(MemoryV2) == SIZE_OF_MEMORY_V2, "differs from pynvml");
_Static_assert(sizeof(TemperatureV1) == SIZE_OF_TEMPERATURE, "differs from pynvml");
_Static_assert(sizeof(Pci) == SIZE_OF_PCI, "differs from pynvml");
_Static_assert(sizeof(Process) == SIZE_OF_PROCESS, "differs from pynvml");
_Static_assert(sizeof(Utilisation) == SIZE_OF_UTILISATION, "differs from pynvml");
_Static_assert(sizeof(Field) == SIZE_OF_FIELD, "differs from pynvml");

static int initialised;
static Device gpus[MOST_GPUS], slices[MOST_GPUS][MOST_SLICES];

static int is_slice(Device *device) {
    return device >= slices[0] && device < slices[0] + MOST_GPUS * MOST_SLICES;
}

static int ask_device(Device *device, const char *function, const char *rest, char **values) {
    if (!initialised) return UNINITIALIZED;
    if (!is_slice(device) && (device < gpus || device >= gpus + MOST_GPUS)) return INVALID_ARGUMENT;
    return ask(device->who, function, rest, values);
}

static int ask_system(const char *function, char **values) {
    return initialised ? ask("system", function, "", values) : UNINITIALIZED;
}

/* Asks for the function in whose body it stands; leaves it unless there are values. */
#define ASK_FOR(device, ...)                                            \
    char rest[64], *values;                                             \
    snprintf(rest, sizeof rest, __VA_ARGS__);                           \
    int code = ask_device(device, __func__, rest, &values);             \
    if (code) return code

#define ASK(device) ASK_FOR(device, "%s", "")

static int copy(char *out, unsigned size, const char *value) {
    return snprintf(out, size, "%s", value) < (int)size ? SUCCESS : INSUFFICIENT_SIZE;
}

/* ---- the connection ---- */

int nvmlInitWithFlags(unsigned flags) {
    char *values;
    int code = ask("system", "nvmlInit", "", &values);
    (void)flags;
    if (code == SUCCESS) initialised++;
    return code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    note_call("system", __func__);
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { (void)code; return "error of the double"; }

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    char *values;
    int code = ask_system(__func__, &values);
    return code ? code : copy(out, size, values);
}

/* such as 13000 */
int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    char *values;
    int code = ask_system("nvmlSystemGetCudaDriverVersion", &values);
    if (!code) *version = next(&values);
    return code;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char *values;
    int code = ask_system("nvmlDeviceGetCount", &values);
    if (!code) *count = next(&values);
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    char *values;
    if (index >= MOST_GPUS) return INVALID_ARGUMENT;
    snprintf(gpus[index].who, sizeof gpus[index].who, "gpu%u", index);
    *device = &gpus[index];
    return ask_device(*device, "nvmlDeviceGetHandleByIndex", "", &values);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Device **device) {
    for (unsigned index = 0; index < MOST_GPUS; index++) {
        char who[24];
        snprintf(who, sizeof who, "gpu%u", index);
        char *values;
        if (!look_up(who, "nvmlDeviceGetPciInfo_v3", "", &values) && !strcmp(values, bus))
            return nvmlDeviceGetHandleByIndex_v2(index, device);
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Device *device, char *out, unsigned size) { ASK(device); return copy(out, size, values); }
int nvmlDeviceGetName(Device *device, char *out, unsigned size) { ASK(device); return copy(out, size, values); }

int nvmlDeviceGetPciInfo_v3(Device *device, Pci *pci) {
    ASK(device);
    memset(pci, 0, sizeof *pci);
    return copy(pci->id, sizeof pci->id, values);
}

/* major, minor */
int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    ASK(device);
    *major = next(&values);
    *minor = next(&values);
    return SUCCESS;
}

/* ---- figures ---- */

/* total, free, used (what the driver reserves included) */
int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    ASK(device);
    memory->total = next(&values);
    memory->free = next(&values);
    memory->used = next(&values);
    return SUCCESS;
}

/* percent of the processors, percent of the memory bus */
int nvmlDeviceGetUtilizationRates(Device *device, Utilisation *rates) {
    ASK(device);
    rates->gpu = next(&values);
    rates->memory = next(&values);
    return SUCCESS;
}

#define NUMBER(function, type) \
    int function(Device *device, type *out) { ASK(device); *out = next(&values); return SUCCESS; }

NUMBER(nvmlDeviceGetPowerUsage, unsigned)                 /* milliwatts */
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned)         /* milliwatts */
NUMBER(nvmlDeviceGetFanSpeed, unsigned)
NUMBER(nvmlDeviceGetPerformanceState, unsigned)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, Number)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned)

#define NUMBER_OF_A_KIND(function) \
    int function(Device *device, unsigned kind, unsigned *out) { \
        ASK_FOR(device, ":%u", kind); *out = next(&values); return SUCCESS; }

NUMBER_OF_A_KIND(nvmlDeviceGetTemperature)
NUMBER_OF_A_KIND(nvmlDeviceGetTemperatureThreshold)
NUMBER_OF_A_KIND(nvmlDeviceGetClockInfo)
NUMBER_OF_A_KIND(nvmlDeviceGetPcieThroughput)             /* KiB per second */

int nvmlDeviceGetTotalEccErrors(Device *device, unsigned kind, unsigned since, Number *count) {
    ASK_FOR(device, ":%u:%u", kind, since);
    *count = next(&values);
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    for (Field *field = fields; field < fields + count; field++) {
        char rest[16], *values;
        snprintf(rest, sizeof rest, ":%u", field->id);
        field->type = UNSIGNED_LONG_LONG;
        field->code = ask_device(device, __func__, rest, &values);
        if (field->code == SUCCESS) field->value = next(&values);
        if (field->code == UNINITIALIZED || field->code == INVALID_ARGUMENT ||
            field->code == FUNCTION_NOT_FOUND || field->code == GPU_IS_LOST) return field->code;
    }
    return SUCCESS;
}

/* ---- processes, slices, links ---- */

static int processes(Device *device, const char *function, unsigned *count, Process *out) {
    unsigned room = *count;
    char *values;
    int code = ask_device(device, function, "", &values);
    if (code) return code;
    for (*count = 0; *values; (*count)++) {               /* pid, bytes, pid, bytes, ... */
        Process process = {.gpu_instance = -1u, .compute_instance = -1u};
        process.pid = next(&values);
        process.memory = next(&values);
        if (out && *count < room) out[*count] = process;
    }
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(function) int function(Device *device, unsigned *count, Process *out) { \
    return processes(device, __func__, count, out); }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)

/* current, pending */
int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    ASK(device);
    *current = next(&values);
    *pending = next(&values);
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **slice) {
    if (is_slice(device) || index >= MOST_SLICES) return INVALID_ARGUMENT;
    ASK_FOR(device, ":%u", index);
    *slice = &slices[device - gpus][index];
    snprintf((*slice)->who, sizeof (*slice)->who, "gpu%u.mig%u", (unsigned)(device - gpus), index);
    return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(Device *device, Device *other, unsigned *level) {
    ASK_FOR(device, ":%s", other->who);
    *level = next(&values);
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(Device *device, Device *other, unsigned kind, unsigned *status) {
    ASK_FOR(device, ":%s:%u", other->who, kind);
    *status = next(&values);
    return SUCCESS;
}

#ifndef OLD_DRIVER

/* total, reserved, free, used */
int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *memory) {
    ASK(device);
    if (memory->version != (sizeof *memory | 2u << 24)) return VERSION_MISMATCH;
    memory->total = next(&values);
    memory->reserved = next(&values);
    memory->free = next(&values);
    memory->used = next(&values);
    return SUCCESS;
}

int nvmlDeviceGetTemperatureV(Device *device, TemperatureV1 *temperature) {
    ASK_FOR(device, ":%u", temperature->sensor);
    if (temperature->version != (sizeof *temperature | 1u << 24)) return VERSION_MISMATCH;
    temperature->temperature = next(&values);
    return SUCCESS;
}

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, Number)

#endif
