/* A disk that is full or read-only, for tests that have no rights to mount one: writes to files below FAULT_DIRECTORY
 * fail with the error of such a disk while the file FAULT_MARK exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_faulty(const char *path) {
  const char *directory = getenv("FAULT_DIRECTORY"), *mark = getenv("FAULT_MARK");
  return directory && mark && strncmp(path, directory, strlen(directory)) == 0 && access(mark, F_OK) == 0;
}

static int is_full(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  if (!is_faulty(path)) return 0;
  errno = ENOSPC;
  return 1;
}

static int is_read_only(const char *path, int flags) {
  const char *kind = getenv("FAULT_KIND");
  if (!kind || strcmp(kind, "read-only") != 0 || !is_faulty(path)) return 0;
  if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT)) return 0;
  errno = EROFS;
  return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t size) { return is_full(fd) ? -1 : REAL(write)(fd, bytes, size); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
  return is_full(fd) ? -1 : REAL(writev)(fd, parts, count);
}
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
  return is_full(fd) ? -1 : REAL(pwrite)(fd, bytes, size, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
  return is_full(fd) ? -1 : REAL(pwrite64)(fd, bytes, size, at);
}

#define OPEN(name)                                                    \
  int name(const char *path, int flags, ...) {                        \
    va_list rest;                                                     \
    va_start(rest, flags);                                            \
    mode_t mode = va_arg(rest, mode_t);                               \
    va_end(rest);                                                     \
    return is_read_only(path, flags) ? -1 : REAL(name)(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
