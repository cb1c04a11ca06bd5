/* A double of the NVIDIA driver's library, libnvidia-ml.so.1, for tests.
 *
 * Every answer comes from a text file that the test rewrites while the library is in use (see
 * __init__.py), one line each:
 *
 *     WHO FUNCTION CODE [VALUE...]        gpu0 nvmlDeviceGetPowerUsage 0 512345
 *
 * WHO is `system` or `gpu<index>`. CODE is what the function returns; 0 means success, and then the
 * values follow: numbers, or the rest of the line as text. The function `*` stands for all functions
 * of a GPU: with a code other than 0 the whole GPU fails. A function without a line is "not
 * supported". Every call is appended to a second file as `WHO FUNCTION`.
 *
 * To widen the double, add a function below; the driver needs no change. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, DRIVER_NOT_LOADED = 9,
       VERSION_MISMATCH = 25, MOST_GPUS = 16, MOST_VALUES = 4, LINE = 512 };

typedef unsigned long long Number;

typedef struct { Number number[MOST_VALUES]; char text[LINE]; } Answer;

typedef struct { char who[16]; } Gpu;                     /* what an nvmlDevice_t points to */
typedef struct { Number total, free, used; } Memory;
typedef struct { unsigned version; Number total, reserved, free, used; } MemoryV2;
typedef struct { unsigned version, sensor; int temperature; } TemperatureV1;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem; char id[32]; } Pci;

static Gpu gpus[MOST_GPUS];
static int initialised;

/* Finds the line of `who` and `function`; returns its code, or -1 where there is none. */
static int find(const char *who, const char *function, Answer *answer) {
    const char *path = getenv("FAKE_NVML_ANSWERS");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LINE], line_who[16], line_function[80];
    int code, found = -1, values;
    if (!file) return DRIVER_NOT_LOADED;
    while (found < 0 && fgets(line, LINE, file)) {
        if (sscanf(line, "%15s %79s %d %n", line_who, line_function, &code, &values) < 3) continue;
        if (strcmp(who, line_who) || strcmp(function, line_function)) continue;
        found = code;
        strcpy(answer->text, line + values);
        answer->text[strcspn(answer->text, "\n")] = 0;
        sscanf(answer->text, "%llu %llu %llu %llu", &answer->number[0], &answer->number[1],
               &answer->number[2], &answer->number[3]);
    }
    fclose(file);
    return found;
}

static void note_call(const char *who, const char *function) {
    FILE *file = fopen(getenv("FAKE_NVML_CALLS"), "a");
    if (!file) return;
    fprintf(file, "%s %s\n", who, function);
    fclose(file);
}

/* What `function` returns for `who`; on SUCCESS the values are in `answer`. */
static int ask(const char *who, const char *function, Answer *answer) {
    int code;
    note_call(who, function);
    if (!initialised) return UNINITIALIZED;
    code = find(who, "*", answer);
    if (code <= 0) code = find(who, function, answer);
    if (code == -1) return NOT_SUPPORTED;
    while (code == -2) pause();                           /* a wedged driver */
    return code;
}

static int ask_gpu(Gpu *gpu, const char *function, Answer *answer) {
    if (gpu < gpus || gpu >= gpus + MOST_GPUS) return INVALID_ARGUMENT;
    return ask(gpu->who, function, answer);
}

#define ASK(gpu) Answer answer; do { \
    int code = ask_gpu(gpu, __func__, &answer); if (code) return code; } while (0)

static int copy(char *out, unsigned size, const char *text) {
    return snprintf(out, size, "%s", text) < (int)size ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlInitWithFlags(unsigned flags) {
    Answer answer;
    int code = find("system", "nvmlInit", &answer);
    (void)flags;
    note_call("system", "nvmlInit");
    if (code == SUCCESS) initialised++;
    return code == -1 ? DRIVER_NOT_LOADED : code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    note_call("system", __func__);
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { (void)code; return "error of the double"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    Answer answer;
    int code = ask("system", "nvmlDeviceGetCount", &answer);
    if (!code) *count = answer.number[0];
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **gpu) {
    Answer answer;
    int code;
    if (index >= MOST_GPUS) return INVALID_ARGUMENT;
    snprintf(gpus[index].who, sizeof gpus[index].who, "gpu%u", index);
    code = ask(gpus[index].who, "nvmlDeviceGetHandleByIndex", &answer);
    if (!code) *gpu = &gpus[index];
    return code;
}

int nvmlDeviceGetUUID(Gpu *gpu, char *out, unsigned size) { ASK(gpu); return copy(out, size, answer.text); }
int nvmlDeviceGetName(Gpu *gpu, char *out, unsigned size) { ASK(gpu); return copy(out, size, answer.text); }

int nvmlDeviceGetPciInfo_v3(Gpu *gpu, Pci *pci) {
    ASK(gpu);
    memset(pci, 0, sizeof *pci);
    return copy(pci->id, sizeof pci->id, answer.text);
}

/* total, reserved, used */
int nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, MemoryV2 *memory) {
    ASK(gpu);
    if (memory->version != (sizeof *memory | 2u << 24)) return VERSION_MISMATCH;
    memory->total = answer.number[0];
    memory->reserved = answer.number[1];
    memory->used = answer.number[2];
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

/* total, used (what the driver reserves included) */
int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *memory) {
    ASK(gpu);
    memory->total = answer.number[0];
    memory->used = answer.number[1];
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* percent of the processors, percent of the memory bus */
int nvmlDeviceGetUtilizationRates(Gpu *gpu, unsigned rates[2]) {
    ASK(gpu);
    rates[0] = answer.number[0];
    rates[1] = answer.number[1];
    return SUCCESS;
}

int nvmlDeviceGetTemperatureV(Gpu *gpu, TemperatureV1 *temperature) {
    ASK(gpu);
    if (temperature->version != (sizeof *temperature | 1u << 24)) return VERSION_MISMATCH;
    temperature->temperature = answer.number[0];
    return SUCCESS;
}

int nvmlDeviceGetTemperature(Gpu *gpu, unsigned sensor, unsigned *temperature) {
    ASK(gpu);
    (void)sensor;
    *temperature = answer.number[0];
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned *milliwatts) {
    ASK(gpu);
    *milliwatts = answer.number[0];
    return SUCCESS;
}

/* current, pending */
int nvmlDeviceGetMigMode(Gpu *gpu, unsigned *current, unsigned *pending) {
    ASK(gpu);
    *current = answer.number[0];
    *pending = answer.number[1];
    return SUCCESS;
}
