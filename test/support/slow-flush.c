/*
 * Makes each flush of a process slow, or makes it fail. Loaded with LD_PRELOAD. The file that FLUSH_SETTING names contains
 * the milliseconds for each flush, or `fail`. Each flush on the main thread appends a byte to the file that FLUSHES_ON_MAIN
 * names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_broken(void) {
  const char *path = getenv("FLUSH_SETTING");
  char text[16] = {0};
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length > 0 && strncmp(text, "fail", 4) == 0) return 1;
  long milliseconds = length > 0 ? atol(text) : 0;
  struct timespec pause = {milliseconds / 1000, (milliseconds % 1000) * 1000000};
  nanosleep(&pause, NULL);
  return 0;
}

static void count_on_main(void) {
  const char *path = getenv("FLUSHES_ON_MAIN");
  if (path == NULL || syscall(SYS_gettid) != getpid()) return;
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (write(file, "x", 1) < 0) abort();
  close(file);
}

static int flush(const char *name, int file) {
  count_on_main();
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  if (!is_broken()) return real(file);
  errno = EIO;
  return -1;
}

int fsync(int file) { return flush("fsync", file); }
int fdatasync(int file) { return flush("fdatasync", file); }
