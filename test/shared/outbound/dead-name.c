/* getaddrinfo of glibc for a zone whose name servers do not respond: names that begin with "dead" take 10 s. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
  int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
  if (node != NULL && strncmp(node, "dead", 4) == 0) {
    sleep(10);
    return EAI_AGAIN;
  }
  return real(node != NULL && strstr(node, ".localhost") != NULL ? "localhost" : node, service, hints, result);
}
