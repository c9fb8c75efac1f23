# SPDX-License-Identifier: BSD-3-Clause
# One run of the R package, the counterpart of call.py.
#     Rscript harmony.R IN.npy META.tsv OUT.npy REPORT.json THREADS defaults|rounds COLUMN,COLUMN
#     Rscript harmony.R --probe
argv <- commandArgs(trailingOnly = TRUE)
suppressPackageStartupMessages(library(harmony))
if (argv[1] == "--probe") {
  cat(as.character(packageVersion("harmony")), "\n", sep = "")
  quit(status = 0)
}

# float32, C order: read as the transpose, which R then turns over
read_npy <- function(path) {
  con <- file(path, "rb")
  on.exit(close(con))
  readBin(con, "raw", 8)
  header <- readChar(con, readBin(con, "integer", size = 2, signed = FALSE))
  shape <- as.numeric(regmatches(sub(".*shape", "", header), gregexpr("[0-9]+", sub(".*shape", "", header)))[[1]][1:2])
  t(matrix(readBin(con, "numeric", prod(shape), size = 4), shape[2], shape[1]))
}

write_npy <- function(x, path) {
  header <- sprintf("{'descr': '<f4', 'fortran_order': True, 'shape': (%d, %d), }", nrow(x), ncol(x))
  header <- paste0(header, strrep(" ", 117 - nchar(header)), "\n")
  con <- file(path, "wb")
  on.exit(close(con))
  writeBin(as.raw(c(0x93, utf8ToInt("NUMPY"), 1, 0)), con)
  writeBin(as.integer(nchar(header)), con, size = 2)
  writeChar(header, con, eos = NULL)
  writeBin(as.vector(x), con, size = 4)
}

Z <- read_npy(argv[1])
meta <- read.delim(argv[2])
start <- proc.time()[["elapsed"]]
ran <- RunHarmony(Z, meta, strsplit(argv[7], ",")[[1]], return_object = TRUE, verbose = FALSE, ncores = as.integer(argv[5]),
                  early_stop = argv[6] != "rounds")
corrected <- t(as.matrix(ran$Z_corr))
seconds <- proc.time()[["elapsed"]] - start
write_npy(corrected, argv[3])
objective <- ran$objective_harmony
writeLines(sprintf('{"call": %.6f, "rounds": %d, "objective": %.9g}', seconds, length(objective) - 1L, objective[length(objective)]), argv[4])
