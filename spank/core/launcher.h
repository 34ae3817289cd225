/* launcher.h - programs that start the processes of a node themselves. */
#ifndef GS_LAUNCHER_H
#define GS_LAUNCHER_H

/* The launcher that a command line starts ("torchrun", "accelerate", ...), NULL = none
 * that is known. argv has argc entries. Such a program wants one task per node: with
 * more, each task starts as many processes as the node has GPUs. */
const char *gs_launcher_name(int argc, const char *const *argv);

#endif
