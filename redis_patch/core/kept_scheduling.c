/* See kept_scheduling.h. A library calls functions of others through tables, which the loader fills when
 * it is loaded: another function is put there. On 64 bits; elsewhere nothing is done. */

#define _GNU_SOURCE /* libraries of the process */

#include "kept_scheduling.h"

#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUNCTION "pthread_setschedparam"
#define MOST_SLOTS 16 /* of all libraries that are called so */

#if __SIZEOF_POINTER__ == 8

typedef struct {
    const Elf64_Sym *symbols;
    const char *names;
    const Elf64_Rela *calls, *data; /* NULL, or two tables with that many bytes each */
    size_t calls_bytes, data_bytes;
} tables;

/* What was there, to be put back. */
static struct {
    void **slot, *function;
} bound[MOST_SLOTS];
static int bound_slots;

static int do_nothing(pthread_t thread, int policy, const struct sched_param *parameters) {
    (void)thread, (void)policy, (void)parameters;
    return 0;
}

static tables find_tables(const struct dl_phdr_info *library) {
    tables found = {0};
    const Elf64_Dyn *entry = NULL;

    for (int at = 0; at < library->dlpi_phnum; at++) {
        const Elf64_Phdr *part = &library->dlpi_phdr[at];
        if (part->p_type == PT_DYNAMIC) entry = (const void *)(library->dlpi_addr + part->p_vaddr);
    }
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *place = (const void *)entry->d_un.d_ptr; /* the loader made it an address */
        if (entry->d_tag == DT_SYMTAB) found.symbols = place;
        if (entry->d_tag == DT_STRTAB) found.names = place;
        if (entry->d_tag == DT_JMPREL) found.calls = place;
        if (entry->d_tag == DT_PLTRELSZ) found.calls_bytes = entry->d_un.d_val;
        if (entry->d_tag == DT_RELA) found.data = place;
        if (entry->d_tag == DT_RELASZ) found.data_bytes = entry->d_un.d_val;
    }
    return found;
}

/* Where all is bound at once, the loader has made the tables read-only. */
static int put(void **slot, void *function) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = (char *)slot - (size_t)slot % page;
    if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return 0;
    *slot = function;
    return 1;
}

static void bind_in(Elf64_Addr base, const Elf64_Rela *table, size_t bytes, const tables *of) {
    for (size_t at = 0; table && at < bytes / sizeof *table; at++) {
        const Elf64_Sym *symbol = &of->symbols[ELF64_R_SYM(table[at].r_info)];
        if (strcmp(of->names + symbol->st_name, FUNCTION) != 0) continue;
        if (bound_slots == MOST_SLOTS) return;
        void **slot = (void **)(base + table[at].r_offset);
        bound[bound_slots].slot = slot;
        bound[bound_slots].function = *slot;
        if (put(slot, (void *)do_nothing)) bound_slots++;
    }
}

static int bind_library(struct dl_phdr_info *library, size_t size, void *wanted) {
    const char *slash = strrchr(library->dlpi_name, '/');
    const char *prefix = *(const char *const *)wanted;

    (void)size;
    if (slash && strncmp(slash + 1, prefix, strlen(prefix)) == 0) {
        tables found = find_tables(library);
        if (found.symbols && found.names) {
            bind_in(library->dlpi_addr, found.calls, found.calls_bytes, &found);
            bind_in(library->dlpi_addr, found.data, found.data_bytes, &found);
        }
    }
    return 0;
}

void keep_scheduling(const char *library) {
    if (!bound_slots) dl_iterate_phdr(bind_library, &library);
}

void restore_scheduling(void) {
    while (bound_slots) {
        bound_slots--;
        put(bound[bound_slots].slot, bound[bound_slots].function);
    }
}

#else

void keep_scheduling(const char *library) {
    (void)library;
}

void restore_scheduling(void) {
}

#endif
