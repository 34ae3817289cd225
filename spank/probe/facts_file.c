/* facts_file.c - the plugin's file and the times of others; see facts.h. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "facts.h"
#include "sha.h"

#define BLOCK 64
#define LENGTH_AT 56 /* the last 8 bytes of the last block are the length in bits */
#define SECTIONS_MAX 4096
#define SYMBOLS_MAX 65536
#define VERSION_NAME "plugin_version"

static bool read_at(int fd, void *out, size_t size, uint64_t at)
{
    return at < (1ULL << 40) && pread(fd, out, size, (off_t)at) == (ssize_t)size;
}

static bool section_at(int fd, const Elf64_Ehdr *head, unsigned i, Elf64_Shdr *ret)
{
    return i < head->e_shnum && head->e_shentsize == sizeof(*ret)
           && read_at(fd, ret, sizeof(*ret), head->e_shoff + i * sizeof(*ret));
}

static bool find_symbols(int fd, const Elf64_Ehdr *head, Elf64_Shdr *ret)
{
    for (unsigned i = 0; i < head->e_shnum && i < SECTIONS_MAX; i++)
        if (section_at(fd, head, i, ret) && ret->sh_type == SHT_DYNSYM)
            return ret->sh_entsize == sizeof(Elf64_Sym);
    return false;
}

static bool has_name(int fd, const Elf64_Shdr *strings, const Elf64_Sym *symbol)
{
    char name[sizeof(VERSION_NAME)];

    return symbol->st_name < strings->sh_size
           && read_at(fd, name, sizeof(name), strings->sh_offset + symbol->st_name)
           && memcmp(name, VERSION_NAME, sizeof(name)) == 0;
}

bool gs_facts_plugin_version(int fd, unsigned *ret_version)
{
    Elf64_Ehdr head;
    Elf64_Shdr symbols, strings, data;
    Elf64_Sym one;
    uint32_t version;

    if (!read_at(fd, &head, sizeof(head), 0)
        || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0
        || head.e_ident[EI_CLASS] != ELFCLASS64 || !find_symbols(fd, &head, &symbols)
        || !section_at(fd, &head, symbols.sh_link, &strings))
        return false;
    for (uint64_t i = 0; i < symbols.sh_size / sizeof(one) && i < SYMBOLS_MAX; i++) {
        if (!read_at(fd, &one, sizeof(one), symbols.sh_offset + i * sizeof(one)))
            return false;
        if (one.st_shndx == SHN_UNDEF || !has_name(fd, &strings, &one))
            continue;
        if (!section_at(fd, &head, one.st_shndx, &data)
            || !read_at(fd,
                        &version,
                        sizeof(version),
                        data.sh_offset + (one.st_value - data.sh_addr)))
            return false;
        *ret_version = version;
        return true;
    }
    return false;
}

/* SHA-256 of a whole file, as 64 digits. */
static bool sum_file(int fd, char ret_text[BLOCK + 1])
{
    uint32_t state[8] = {0x6a09e667,
                         0xbb67ae85,
                         0x3c6ef372,
                         0xa54ff53a,
                         0x510e527f,
                         0x9b05688c,
                         0x1f83d9ab,
                         0x5be0cd19};
    uint8_t block[BLOCK] = {0};
    uint64_t size = 0;
    ssize_t got;

    while ((got = pread(fd, block, BLOCK, (off_t)size)) == BLOCK) {
        gs_sha_block(state, block);
        size += BLOCK;
    }
    if (got < 0)
        return false;
    size += (uint64_t)got;
    memset(block + got, 0, (size_t)(BLOCK - got));
    block[got] = 0x80;
    if (got >= LENGTH_AT) {
        gs_sha_block(state, block);
        memset(block, 0, BLOCK);
    }
    for (unsigned i = 0; i < 8; i++)
        block[LENGTH_AT + i] = (uint8_t)(size * 8 >> (56 - 8 * i));
    gs_sha_block(state, block);
    for (unsigned i = 0; i < 8; i++)
        snprintf(ret_text + (size_t)(8 * i), 9, "%08x", state[i]);
    return true;
}

static void print_plugin(const char *path)
{
    char sum[BLOCK + 1];
    unsigned version;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    gs_fact("plugin", "%s", path);
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
        const char *why = fd < 0 ? strerror(errno) : "is no plain file";
        if (fd < 0 && errno == ENOENT)
            why = "missing";
        gs_fact("plugin_state", "%s", why);
        if (fd >= 0)
            close(fd);
        return;
    }
    gs_fact("plugin_state", "ok");
    gs_fact("plugin_owner", "%u", (unsigned)info.st_uid);
    gs_fact("plugin_mode", "%04o", (unsigned)(info.st_mode & 07777));
    if (sum_file(fd, sum))
        gs_fact("plugin_sha256", "%s", sum);
    if (gs_facts_plugin_version(fd, &version))
        gs_fact("plugin_slurm",
                "%u.%02u.%u",
                version >> 16,
                version >> 8 & 0xff,
                version & 0xff);
    close(fd);
}

/* The change time: a package or cp -p keeps the other one as it was elsewhere. */
static void print_time(const char *path)
{
    struct stat info;

    if (stat(path, &info) < 0)
        gs_fact("file", "%s unknown: %s", path, strerror(errno));
    else
        gs_fact("file", "%s %lld", path, (long long)info.st_ctime);
}

void gs_facts_of_files(const struct gs_facts_ask *ask)
{
    if (ask->plugin)
        print_plugin(ask->plugin);
    for (size_t i = 0; i < ask->file.count; i++)
        print_time(ask->file.value[i]);
}
