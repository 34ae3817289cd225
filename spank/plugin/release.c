/* release.c - the one file that knows for which release line of Slurm this plugin is.
 *
 * Slurm loads a plugin whose plugin_version has its own major and minor number, and no
 * other. Compiled with GS_SLURM_MAJOR, GS_SLURM_MINOR and GS_SLURM_LINE (such as 24, 11
 * and 24_11) it is for a line of slurmlines.h, whatever headers are there; without them
 * for the release of the headers. */
#include <stddef.h>

#include "slurmabi.h"

#ifdef GS_SLURM_LINE
#include "slurmlines.h"
_Static_assert(sizeof(void *) == 8, "slurmlines.h tells offsets of 64-bit machines");
#define PASTED(line) GS_SLURM_##line
#define ROW(line) PASTED(line)
#define RELEASE ((GS_SLURM_MAJOR << 16) + (GS_SLURM_MINOR << 8))
const struct gs_slurm_abi gs_slurm_abi = ROW(GS_SLURM_LINE);
#else
#include <slurm/slurm.h>
#define RELEASE (SLURM_VERSION_NUMBER & 0xffff00)
#define OFFSET(name, type, member) .name = offsetof(type, member),
/* clang-format off */
const struct gs_slurm_abi gs_slurm_abi = {
    GS_SLURM_FIELDS(OFFSET)
    .prolog_is_list = _Generic(((slurm_conf_t *)0)->prolog, char **: 1, default: 0),
};
/* clang-format on */
#endif

extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;

const char plugin_name[] = "gangstart";
const char plugin_type[] = "spank";
const unsigned int plugin_version = RELEASE;
const unsigned int spank_plugin_version = 1;
