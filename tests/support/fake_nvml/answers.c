/* Reads the answers of the double from the file that the test rewrites. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "answers.h"

enum { CRASH = -3, NEVER = -2 };                          /* no codes of NVML: see __init__.py */
enum { KEY = 128 };

typedef struct { char *key, *values; int code; } Line;    /* key: "gpu0 nvmlDeviceGetClockInfo:1" */

static volatile Number *version;
static Number version_read;
static char *text;
static Line *lines;
static size_t line_count;

static const char *path_of(const char *file) {
    static char path[4096];
    const char *folder = getenv("FAKE_NVML");
    if (!folder) return "";
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const Line *)a)->key, ((const Line *)b)->key);
}

static void add_line(char *key) {
    char *code = strchr(key, ' ');
    code = code ? strchr(code + 1, ' ') : NULL;
    if (!code) return;
    *code++ = 0;
    lines = realloc(lines, (line_count + 1) * sizeof *lines);
    lines[line_count].key = key;
    lines[line_count].code = (int)strtol(code, &lines[line_count].values, 10);
    lines[line_count].values += *lines[line_count].values == ' ';
    line_count++;
}

static void read_answers(void) {
    FILE *file = fopen(path_of("answers"), "r");
    size_t size = 0;
    if (!file) abort();
    free(text);
    text = NULL;
    if (getdelim(&text, &size, 0, file) < 0) abort();
    fclose(file);
    line_count = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) add_line(line);
    qsort(lines, line_count, sizeof *lines, by_key);
}

static int attach(void) {
    if (!version) {
        int file = open(path_of("version"), O_RDONLY);
        void *memory = file < 0 ? MAP_FAILED : mmap(0, sizeof *version, PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        if (memory == MAP_FAILED) return 0;
        version = memory;
    }
    if (version_read != *version) {
        version_read = *version;
        read_answers();
    }
    return 1;
}

static Line *find(const char *who, const char *function, const char *rest) {
    char key[KEY];
    Line wanted = {key, NULL, 0};
    snprintf(key, sizeof key, "%s %s%s", who, function, rest);
    return bsearch(&wanted, lines, line_count, sizeof *lines, by_key);
}

void note_call(const char *who, const char *function) {
    static int file = -1;
    const char *path = getenv("FAKE_NVML_CALLS");
    if (!path) return;
    if (file < 0) file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dprintf(file, "%s %s\n", who, function);
}

int look_up(const char *who, const char *function, const char *rest, char **values) {
    Line *line;
    if (!attach()) return DRIVER_NOT_LOADED;
    line = find(who, "*", "");
    if (!line || !line->code) line = find(who, function, rest);
    if (!line) line = find(who, function, "");
    if (!line) return NOT_SUPPORTED;
    while (line->code == NEVER) pause();                  /* a wedged driver */
    if (line->code == CRASH) raise(SIGSEGV);
    *values = line->values;
    return line->code;
}

int ask(const char *who, const char *function, const char *rest, char **values) {
    note_call(who, function);
    return look_up(who, function, rest, values);
}

Number next(char **values) { return strtoull(*values, values, 10); }
