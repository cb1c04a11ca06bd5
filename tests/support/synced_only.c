/* A disk that keeps only what was synced: preloaded, it takes the place of fsync and fdatasync.
 *
 * POSIX promises no more than this: the content of a file is what it was at its last sync, and a
 * folder has the names that it had at its last sync. At each sync this library writes the content or
 * the names to the folder $SYNCED_ONLY, under the number and the birth of the file, because the
 * system gives the number of a deleted file to a new one. $SYNCED_ONLY_ROOT is the folder whose names
 * are written to `root`. With $SYNCED_ONLY_SECONDS, a sync of the log of a database takes so long.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_ulong count;

static int look(int folder, const char *name, struct statx *found) {
    int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    return statx(folder, name, flags, STATX_BASIC_STATS | STATX_BTIME, found);
}

static void name_of(const struct statx *file, char *name, size_t size) {
    struct statx root;
    const char *path = getenv("SYNCED_ONLY_ROOT");
    if (path && look(AT_FDCWD, path, &root) == 0 && root.stx_ino == file->stx_ino) {
        snprintf(name, size, "root");
        return;
    }
    snprintf(name, size, "%llu-%lld-%u", (unsigned long long)file->stx_ino,
             (long long)file->stx_btime.tv_sec, file->stx_btime.tv_nsec);
}

static int write_all(int target, const char *data, size_t size) {
    while (size) {
        ssize_t written = write(target, data, size);
        if (written < 0) return -1;
        data += written;
        size -= written;
    }
    return 0;
}

static int copy_names(int folder, int target) {
    char path[64], line[PATH_MAX], key[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", folder);
    DIR *open_folder = opendir(path);
    if (!open_folder) return -1;
    int result = 0;
    for (struct dirent *entry; result == 0 && (entry = readdir(open_folder));) {
        struct statx found;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (look(dirfd(open_folder), entry->d_name, &found)) continue; /* it was just deleted */
        char kind = S_ISDIR(found.stx_mode) ? 'd' : S_ISREG(found.stx_mode) ? 'f' : 'o';
        name_of(&found, key, sizeof key);
        int size = snprintf(line, sizeof line, "%c %s %s\n", kind, key, entry->d_name);
        result = write_all(target, line, size);
    }
    closedir(open_folder);
    return result;
}

static int copy_content(int file, int target) {
    char path[64], buffer[1 << 16];
    int readable = file, result = 0;
    /* A second descriptor only if there must be one: closing it would release SQLite's locks. */
    if ((fcntl(file, F_GETFL) & O_ACCMODE) == O_WRONLY) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        readable = open(path, O_RDONLY | O_CLOEXEC);
        if (readable < 0) return -1;
    }
    for (off_t place = 0; result == 0;) {
        ssize_t size = pread(readable, buffer, sizeof buffer, place);
        if (size <= 0) {
            result = (int)size;
            break;
        }
        result = write_all(target, buffer, size);
        place += size;
    }
    if (readable != file) close(readable);
    return result;
}

static void delay(int file) {
    const char *seconds = getenv("SYNCED_ONLY_SECONDS");
    char link[64], path[PATH_MAX];
    if (!seconds) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path);
    if (size > 4 && !memcmp(path + size - 4, "-wal", 4)) sleep(atoi(seconds));
}

static int keep(int file, long call) {
    const char *disk = getenv("SYNCED_ONLY");
    struct statx found;
    if (!disk || look(file, "", &found)) return (int)syscall(call, file);
    if (!S_ISDIR(found.stx_mode) && !S_ISREG(found.stx_mode)) return (int)syscall(call, file);
    char name[64], path[PATH_MAX], temporary[PATH_MAX];
    name_of(&found, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", disk, name);
    snprintf(temporary, sizeof temporary, "%s/.%d-%lu", disk, getpid(), atomic_fetch_add(&count, 1));
    int target = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (target < 0) return -1;
    int result = S_ISDIR(found.stx_mode) ? copy_names(file, target) : copy_content(file, target);
    close(target);
    delay(file);
    return result ? result : rename(temporary, path);
}

int fsync(int file) { return keep(file, SYS_fsync); }
int fdatasync(int file) { return keep(file, SYS_fdatasync); }
