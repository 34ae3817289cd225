/* visible.h - which GPUs a task sees, by CUDA's own rules for CUDA_VISIBLE_DEVICES. */
#ifndef GS_VISIBLE_H
#define GS_VISIBLE_H

#include <stdint.h>

#define GS_VISIBLE_MAX 256 /* devices of one node */

/* Physical indices of the devices CUDA would show, in its order, for the value of
 * CUDA_VISIBLE_DEVICES on a node with gpus devices whose UUIDs are uuids ("GPU-...",
 * may be NULL when not known: then an entry that names a UUID ends the list).
 *
 * CUDA's rules: NULL (unset) shows all; the list ends at the first entry that names no
 * device (a negative or too large index, text, an unknown or ambiguous UUID prefix);
 * naming a device twice shows none. A MIG instance ("MIG-...") is looked up among the
 * UUIDs as well.
 *
 * Returns the number of devices (at most GS_VISIBLE_MAX) and fills ret_index, which has
 * room for GS_VISIBLE_MAX. */
int gs_visible_index(const char *value,
                     uint32_t gpus,
                     const char *const *uuids,
                     uint32_t *ret_index);

/* The same as far as the value alone tells, without knowing the node's devices: an
 * entry counts when it has the form of an index, a GPU or a MIG instance. -1 for NULL:
 * unset says nothing. */
int gs_visible_count(const char *value);

#endif
