/* A library for LD_PRELOAD: while $LOST_SWITCH holds the number of an error, every access by name to
   what is below $LOST_FOLDER ends with it, as on a file server that is gone. Files that are open
   already stay usable. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refused(const char *path) {
    const char *folder = getenv("LOST_FOLDER"), *file = getenv("LOST_SWITCH");
    char text[16];
    ssize_t size;
    int saved = errno, descriptor;
    static int (*real_open)(const char *, int, ...);
    if (!real_open) real_open = dlsym(RTLD_NEXT, "open");
    if (!path || !folder || !file || strncmp(path, folder, strlen(folder))) return 0;
    descriptor = real_open(file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) { errno = saved; return 0; }
    size = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    errno = saved;
    if (size <= 0) return 0;
    text[size] = 0;
    errno = atoi(text);
    return 1;
}

#define WRAP(type, failure, name, parameters, arguments, path)                  \
    type name parameters {                                                      \
        static type (*real) parameters;                                         \
        if (!real) real = dlsym(RTLD_NEXT, #name);                              \
        return refused(path) ? failure : real arguments;                        \
    }

WRAP(int, -1, stat, (const char *p, struct stat *s), (p, s), p)
WRAP(int, -1, stat64, (const char *p, struct stat64 *s), (p, s), p)
WRAP(int, -1, lstat, (const char *p, struct stat *s), (p, s), p)
WRAP(int, -1, lstat64, (const char *p, struct stat64 *s), (p, s), p)
WRAP(int, -1, fstatat, (int d, const char *p, struct stat *s, int f), (d, p, s, f), p)
WRAP(int, -1, fstatat64, (int d, const char *p, struct stat64 *s, int f), (d, p, s, f), p)
WRAP(int, -1, access, (const char *p, int m), (p, m), p)
WRAP(int, -1, mkdir, (const char *p, mode_t m), (p, m), p)
WRAP(int, -1, rename, (const char *p, const char *q), (p, q), p)
WRAP(int, -1, unlink, (const char *p), (p), p)
WRAP(int, -1, rmdir, (const char *p), (p), p)
WRAP(int, -1, utimensat, (int d, const char *p, const struct timespec *t, int f), (d, p, t, f), p)
WRAP(DIR *, NULL, opendir, (const char *p), (p), p)

#define WRAP_OPEN(name)                                                         \
    int name(const char *path, int flags, ...) {                                \
        static int (*real)(const char *, int, ...);                             \
        va_list list;                                                           \
        va_start(list, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list);                                                           \
        if (!real) real = dlsym(RTLD_NEXT, #name);                              \
        return refused(path) ? -1 : real(path, flags, mode);                    \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)
