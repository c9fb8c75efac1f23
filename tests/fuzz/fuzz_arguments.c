/* SPDX-License-Identifier: BSD-3-Clause */
/* The input is a command line, words by line ends, run in this process (main.c's main has another name here) in a folder of small
   files. No word leads out of that folder, and numbers are short unless nothing is run: the program does as it is told, for as
   long as it is told. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>

#include "fuzzing.h"

int unisono_main(int argc, char **argv);

enum { MOST_WORDS = 40, MOST_LENGTH = 2048 };

static char folder[64], originals[80];

/* ---- the folder
 * --------------------------------------------------------------------------------------------------------------------------------
 */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    return where->level == 0 ? 0 : remove(path);
}

static void remove_all(void)
{
    if (chdir("/") == 0 && nftw(originals, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0)
        rmdir(originals);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    rmdir(folder);
}

static void make_files(void)
{
    char path[128];
    enum { N = 40, D = 3 };
    static float values[N * D];
    static int32_t level[N];
    static const char *const names[] = {"a", "b"};
    static const struct io_strings level_names = {2, (const char **)(uintptr_t)names, NULL};
    for (int i = 0; i < N; i++) {
        level[i] = i % 2;
        for (int j = 0; j < D; j++)
            values[i * D + j] = (float)((i * 7 + j * 13) % 23 - 11 + level[i]);
    }
    snprintf(path, sizeof path, "%s/s.h5ad", originals);
    struct io_new_h5ad made = {.n_cells = N,
                               .n_dims = D,
                               .values = values,
                               .key = "X_pca",
                               .n_columns = 1,
                               .column = (const char *const[]){"batch"},
                               .level = (const int32_t *const[]){level},
                               .level_names = (const struct io_strings *const[]){&level_names}};
    REQUIRE(io_h5ad_create(path, &made, 1) == 0);
    snprintf(path, sizeof path, "%s/s.npy", originals);
    REQUIRE(io_npy_write(path, values, 'f', 2, (int64_t[]){N, D}) == 0);
    snprintf(path, sizeof path, "%s/m.tsv", originals);
    FILE *table = fopen(path, "w");
    REQUIRE(table);
    fputs("cell\tbatch\tdonor\tscore\n", table);
    for (int i = 0; i < N; i++)
        fprintf(table, "cell%d\t%s\td%d\t%g\n", i + 1, names[level[i]], i % 3, i / 8.0);
    fclose(table);
}

static void set_up(void)
{
    fuzz_path(folder, "-arguments");
    snprintf(originals, sizeof originals, "%s-originals", folder);
    REQUIRE((mkdir(folder, 0700) == 0 || errno == EEXIST) && (mkdir(originals, 0700) == 0 || errno == EEXIST));
    make_files();
    atexit(remove_all);
}

/* As at first: results are renamed over files, so a link's original stays. */
static void refresh(void)
{
    static const char *const files[] = {"s.h5ad", "s.npy", "m.tsv"};
    char from[128];
    REQUIRE(chdir(folder) == 0);
    nftw(".", remove_one, 8, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(from, sizeof from, "%s/%s", originals, files[i]);
        REQUIRE(link(from, files[i]) == 0);
    }
}

/* ---- the words
 * ---------------------------------------------------------------------------------------------------------------------------------
 */

/* A slash may end a word, "folder/", and nothing else; not where it makes "./", "../" or "/". */
static void keep_inside(char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i < n; i++)
        if (word[i] == '/' && (i + 1 < n || i == 0 || word[i - 1] == '.' || word[i - 1] == '=' || word[i - 1] == 'o'))
            word[i] = '_';
}

/* Digits beyond so many of one number. */
static void shorten(char *word, int most)
{
    char *to = word;
    int digits = 0;
    for (const char *at = word; *at; at++) {
        digits = *at >= '0' && *at <= '9' ? digits + 1 : 0;
        if (digits <= most && !(digits == 0 && (*at == 'e' || *at == 'E') && at > word && at[-1] >= '0' && at[-1] <= '9'))
            *to++ = *at;
    }
    *to = 0;
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static char text[MOST_LENGTH + 1];
    char *words[MOST_WORDS + 2] = {"unisono"}, *rest = text;
    int n = 1, dry = 0;
    if (size > MOST_LENGTH || memchr(data, 0, size))
        return -1;
    if (!folder[0])
        set_up();
    memcpy(text, data, size);
    text[size] = 0;
    while (rest && n <= MOST_WORDS)
        words[n++] = strsep(&rest, "\n");
    words[n] = NULL;
    for (int i = 1; i < n; i++)
        dry |= !strcmp(words[i], "--dry-run");
    for (int i = 1; i < n; i++) {
        keep_inside(words[i]);
        if (!dry)
            shorten(words[i], n > 1 && !strcmp(words[1], "simulate") ? 2 : 3);
    }
    refresh();
    int status = unisono_main(n, words);
    REQUIRE(status >= 0 && status <= 2);
    return 0;
}
