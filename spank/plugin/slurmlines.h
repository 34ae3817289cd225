/* slurmlines.h - the release lines of Slurm that the package brings a plugin for.
 *
 * Offsets in bytes where pointers have 8, in the order of GS_SLURM_FIELDS, then whether
 * Prolog= is a list. From the public headers of every micro release of each line (71 of
 * them, 22.05.0 to 26.05.3): within a line they are the same. A test compares them with
 * whatever headers are at hand. */
#ifndef GS_SLURMLINES_H
#define GS_SLURMLINES_H

/* clang-format off */
#define GS_SLURM_22_05 {232, 928, 954, 1248, 1252, 1320, 8, 16, \
    208, 264, 192, 240, 0, 16, 16, 16, 8, 40, 32, 48, 26, 0, 8, 4, 0}
#define GS_SLURM_23_02 {232, 944, 970, 1248, 1252, 1320, 8, 16, \
    208, 264, 192, 240, 0, 16, 16, 16, 8, 40, 32, 48, 26, 0, 8, 4, 0}
#define GS_SLURM_23_11 {232, 928, 954, 1224, 1228, 1296, 8, 16, \
    224, 280, 208, 256, 0, 16, 16, 48, 40, 72, 64, 80, 58, 0, 8, 4, 0}
#define GS_SLURM_24_05 {224, 896, 926, 1192, 1196, 1264, 8, 16, \
    208, 280, 192, 240, 0, 16, 16, 48, 40, 72, 64, 80, 58, 0, 8, 4, 1}
#define GS_SLURM_24_11 {248, 928, 958, 1224, 1228, 1296, 8, 16, \
    208, 280, 192, 240, 0, 16, 16, 48, 40, 72, 64, 80, 58, 8, 16, 12, 1}
#define GS_SLURM_25_05 {264, 928, 960, 1232, 1236, 1304, 8, 16, \
    248, 320, 232, 280, 0, 16, 16, 40, 32, 64, 56, 72, 50, 8, 16, 12, 1}
#define GS_SLURM_25_11 {264, 952, 984, 1256, 1260, 1328, 8, 16, \
    248, 328, 232, 288, 0, 16, 16, 40, 32, 64, 56, 72, 50, 8, 16, 12, 1}
#define GS_SLURM_26_05 {264, 992, 1024, 1304, 1308, 1384, 8, 16, \
    248, 328, 232, 288, 0, 16, 16, 40, 32, 64, 56, 72, 50, 8, 16, 12, 1}
/* clang-format on */

#endif
