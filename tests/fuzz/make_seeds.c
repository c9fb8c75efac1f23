/* SPDX-License-Identifier: BSD-3-Clause */
/* make_seeds FOLDER: small .h5ad files of every layout, for fuzz_h5ad to change bytes of. The names of what is in them follow
   fuzz_h5ad.c. */
#include "h5ad_made.h"

int main(int argc, char **argv)
{
    /* By h5ad_made.c's choices: bytes of at least 192 are the unusual ones. */
    static const struct {
        const char *name;
        int layout;
        const char *choices;
        size_t length;
    } seeds[] = {{"current", 0, "", 0},         {"older_07", 1, "", 0},
                 {"older_06", 2, "", 0},        {"frame", 0, "\0\0\0\0\0\3", 6},
                 {"csc", 0, "\0\0\0\0\0\4", 6}, {"csr", 0, "\0\0\0\0\0\5", 6},
                 {"latest", 0, "\301", 1},      {"latest_csr", 1, "\301\0\0\0\5", 5}};
    for (size_t i = 0; argc == 2 && i < sizeof seeds / sizeof *seeds; i++) {
        char path[4096];
        struct choices choices = {(const uint8_t *)seeds[i].choices, (const uint8_t *)seeds[i].choices + seeds[i].length};
        snprintf(path, sizeof path, "%s/%s.h5ad", argv[1], seeds[i].name);
        if (make_h5ad(path, &choices, seeds[i].layout)) {
            fprintf(stderr, "%s: HDF5 did not make it\n", path);
            return 1;
        }
    }
    return argc == 2 ? 0 : 2;
}
