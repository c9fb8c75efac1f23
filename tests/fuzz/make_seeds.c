/* SPDX-License-Identifier: BSD-3-Clause */
/* make_seeds FOLDER FILE...: small .h5ad files of every layout, and those files, for fuzz_h5ad to change bytes of: each once for
   everything that is asked (h5ad_looks.h). The names of what is in them are those that it asks for. */
#include "h5ad_looks.h"
#include "h5ad_made.h"

enum { MOST_BYTES = 1 << 16 };

#define ZEROS(n) ZEROS_##n
#define ZEROS_10 "\0\0\0\0\0\0\0\0\0\0"
#define ZEROS_12 ZEROS_10 "\0\0"
#define ZEROS_32 ZEROS_10 ZEROS_10 ZEROS_12

/* FOLDER/NAME-LOOK, with a byte at its end that says so. */
static int once_for_each(const char *folder, const char *name, const char *path, unsigned char looks)
{
    static unsigned char bytes[MOST_BYTES + 1];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, MOST_BYTES, file) : 0;
    if (file)
        fclose(file);
    for (unsigned char look = 0; size > 0 && look < looks; look++) {
        char seed[4200];
        snprintf(seed, sizeof seed, "%s/%s-%d", folder, name, look);
        bytes[size] = look;
        fuzz_file(seed, bytes, size + 1);
    }
    return size > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    /* By h5ad_made.c's choices: bytes of at least 192 are the unusual ones. */
    static const struct {
        const char *name;
        int layout;
        const char *choices;
        size_t length;
    } seeds[] = {{"current", 0, "", 0},
                 {"older_07", 1, "", 0},
                 {"older_06", 2, "", 0},
                 {"frame", 0, "\0\0\0\0\0\3", 6},
                 {"csc", 0, "\0\0\0\0\0\4", 6},
                 {"csr", 0, "\0\0\0\0\0\5", 6},
                 {"half", 0, ZEROS(10) "\301", 11},
                 {"gzip", 0, ZEROS(12) "\302\1\1\301\301", 17},
                 {"nullable", 0, ZEROS(32) "\303", 33},
                 {"texts", 0, ZEROS(32) "\304", 33},
                 {"wholes", 0, ZEROS(32) "\305", 33},
                 {"reals", 0, ZEROS(32) "\306", 33},
                 {"booleans", 0, ZEROS(32) "\307", 33},
                 {"latest", 0, "\301", 1},
                 {"latest_csr", 1, "\301\0\0\0\5", 5}};
    char path[4096];
    for (size_t i = 0; argc >= 2 && i < sizeof seeds / sizeof *seeds; i++) {
        struct choices choices = {(const uint8_t *)seeds[i].choices, (const uint8_t *)seeds[i].choices + seeds[i].length};
        snprintf(path, sizeof path, "%s/%s.h5ad", argv[1], seeds[i].name);
        if (make_h5ad(path, &choices, seeds[i].layout) || once_for_each(argv[1], seeds[i].name, path, MADE_LOOKS)) {
            fprintf(stderr, "%s: HDF5 did not make it\n", path);
            return 1;
        }
        unlink(path);
    }
    for (int i = 2; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        if (once_for_each(argv[1], slash ? slash + 1 : argv[i], argv[i], LOOKS)) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 1;
        }
    }
    return argc >= 2 ? 0 : 2;
}
